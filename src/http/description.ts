import { Worker } from "node:worker_threads";
import { openApiDocument } from "./openapi.ts";
import type { AnyRoute } from "./route.ts";

/** Makes the OpenAPI document of the API that `origin` serves as JSON in UTF-8. */
export type Describe = (origin: string) => Promise<Buffer>;

/** Makes the document of `routes` at once, which takes half a second of CPU for all routes. */
export const describeHere =
  (routes: readonly AnyRoute[]): Describe =>
  async (origin) =>
    Buffer.from(JSON.stringify(openApiDocument(routes, origin)));

/** Makes the document of all routes in a thread of its own, so that other requests are served meanwhile. */
export const describeInThread: Describe = (origin) =>
  new Promise((resolve, reject) => {
    const thread = new Worker(new URL("openapi-thread.ts", import.meta.url), { workerData: origin });
    thread.unref();
    thread.once("message", (text: string) => resolve(Buffer.from(text)));
    thread.once("error", reject);
    thread.once("exit", (code) => reject(new Error(`the thread ended with ${code} before its document`)));
  });
