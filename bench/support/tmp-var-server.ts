// Laurel's own HTTP server with group commit off: every request is a transaction of its own.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createApp } from "/work/main/src/app.ts";
import { loadConfig } from "/work/main/src/config.ts";
import { guardedHttpServer } from "/work/main/src/http/guard.ts";
import { routes } from "/work/main/src/http/routes.ts";
import { createHttp } from "/work/main/src/http/server.ts";
import { createLog } from "/work/main/src/log.ts";
import { createMetrics } from "/work/main/src/metrics.ts";
import { openPlatform } from "/work/main/src/platform.ts";

const config = await loadConfig();
const log = createLog(config);
const platform = await openPlatform(config, log);
const limits = { ...platform.limits, ingestEvents: Number(process.argv[2]), ingestRows: 2000, ingestConcurrency: Number(process.argv[3]) };
const app = createApp({ config, log, metrics: createMetrics(), platform: { ...platform, limits } });
const server = guardedHttpServer().on("request", createHttp(app, routes)).listen(0, "127.0.0.1");
await once(server, "listening");
process.send?.((server.address() as AddressInfo).port);
process.on("SIGTERM", () => process.exit(0));
