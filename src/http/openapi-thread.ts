import { parentPort, workerData } from "node:worker_threads";
import { openApiDocument } from "./openapi.ts";
import { routes } from "./routes.ts";

/** The thread of `describeInThread`, given the server's address. */
parentPort?.postMessage(JSON.stringify(openApiDocument(routes, workerData as string)), []);
