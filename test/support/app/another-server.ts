import type { App } from "../../../src/app.ts";
import type { Config } from "../../../src/config.ts";
import { KnownBlocks } from "../../../src/domain/accounts/rate-limits/ip-blocks.ts";
import { createMail } from "../../../src/domain/accounts/email/deliveries.ts";
import type { TestApp } from "./app.ts";
import type { Client } from "../http/client.ts";
import { serveApp } from "../http/serve-app.ts";

const servers: { close(): Promise<void> }[] = [];

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
  const server = await serveApp(() => other);
  servers.push(server);
  return server;
};

after(async () => {
  for (const server of servers) await server.close();
});
