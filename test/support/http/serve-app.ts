import { createServer, type RequestListener } from "node:http";
import type { App } from "../../../src/app.ts";
import { openApiDocument } from "../../../src/http/openapi.ts";
import { routes } from "../../../src/http/routes.ts";
import { createHttp } from "../../../src/http/server.ts";
import { type Client, clientOf } from "./client.ts";
import { listen } from "./listen.ts";
import { checkResponse } from "./openapi-check.ts";

const document = openApiDocument(routes);

/** A further HTTP server, of an app that is made for its address; its answers are held against the document. */
export const serveApp = async (
  appAt: (url: string) => App | Promise<App>,
): Promise<Client & { app: App; close(): Promise<void> }> => {
  let serve: RequestListener = (_request, response) => void response.end();
  const { url, close } = await listen(createServer((request, response) => serve(request, response)));
  const app = await appAt(url);
  serve = createHttp(app, routes);
  return { ...clientOf(url, (...answer) => checkResponse(document, ...answer)), app, close };
};
