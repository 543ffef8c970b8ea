// Laurel's own HTTP server with group commit off: every request is a transaction of its own.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { guardedHttpServer } from "../../src/http/guard.ts";
import { routes } from "../../src/http/routes.ts";
import { createHttp } from "../../src/http/server.ts";
import { createLog } from "../../src/log.ts";
import { createMetrics } from "../../src/metrics.ts";
import { openPlatform } from "../../src/platform.ts";

const config = await loadConfig();
const log = createLog(config);
const platform = await openPlatform(config, log);
const limits = { ...platform.limits, ingestEvents: 1, ingestConcurrency: config.databasePoolMax };
const app = createApp({ config, log, metrics: createMetrics(), platform: { ...platform, limits } });
const server = guardedHttpServer().on("request", createHttp(app, routes)).listen(0, "127.0.0.1");
await once(server, "listening");
process.send?.((server.address() as AddressInfo).port);
for (const event of ["SIGTERM", "disconnect"]) process.on(event, () => process.exit(0));
