import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { App } from "../../../src/app.ts";
import type { Config } from "../../../src/config.ts";
import { KnownBlocks } from "../../../src/domain/accounts/rate-limits/ip-blocks.ts";
import { createMail } from "../../../src/domain/accounts/email/deliveries.ts";
import { openApiDocument } from "../../../src/http/openapi.ts";
import { routes } from "../../../src/http/routes.ts";
import { createHttp } from "../../../src/http/server.ts";
import type { TestApp } from "./app.ts";
import { type Client, clientOf } from "../http/client.ts";
import { checkResponse } from "../http/openapi-check.ts";

const document = openApiDocument(routes);
const servers: { stop(): Promise<void> }[] = [];

/** The parts of an App that are made from settings which differ. */
const madeAnew = ({ secretBox, config }: App, { mail }: Partial<Config>): Partial<App> => {
  if (!mail) return {};
  const { consoleUrl } = config;
  return { mail: createMail({ secretBox, mode: mail.mode, consoleUrl, wake: () => undefined }) };
};

/** A server over the same database that is configured differently; it ends with the tests. */
export const anotherServer = async (
  { app }: TestApp,
  config: Partial<Config>,
  parts: Partial<App> = {},
): Promise<Client> => {
  const given = { ...app, config: { ...app.config, ...config }, ...madeAnew(app, config), ...parts };
  const other: App = { ...given, blocks: parts.blocks ?? new KnownBlocks(given) };
  const server = createServer(createHttp(other, routes)).listen(0, "127.0.0.1");
  await once(server, "listening");
  servers.push({
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  });
  const { port } = server.address() as AddressInfo;
  return clientOf(`http://127.0.0.1:${port}`, (...answer) => checkResponse(document, ...answer));
};

after(async () => {
  for (const server of servers) await server.stop();
});
