import { parentPort } from "node:worker_threads";
import { openApiDocument } from "./openapi.ts";
import { routes } from "./routes.ts";

/** The thread of `describeInThread`. */
parentPort?.postMessage(JSON.stringify(openApiDocument(routes)), []);
