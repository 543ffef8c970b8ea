import cluster from "node:cluster";
import type { RequestListener, Server as HttpServer } from "node:http";
import type { AddressInfo, Server as TcpServer, Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { type App, createApp } from "../app.ts";
import type { Config } from "../config.ts";
import { subscribeKeyChanges } from "../domain/accounts/api-keys/api-key.ts";
import { ensurePartitions } from "../domain/registries/retention.ts";
import { readWarehouseLag } from "../domain/analytics/warehouse/progress.ts";
import { readQueues } from "../domain/delivery/queues.ts";
import { readLags } from "../domain/delivery/webhooks/delivering/claim.ts";
import { readOverdueRenewals } from "../domain/accounts/domains/states.ts";
import { countOldSealed } from "../domain/registries/sealed-values.ts";
import { readTableSizes } from "../domain/kernel/db.ts";
import { routes } from "../http/routes.ts";
import { describeInThread } from "../http/openapi.ts";
import { createHttp } from "../http/server.ts";
import { guardedServer, openOperatorPort } from "./operator-port.ts";
import { openTlsPort, portOf } from "./tls-port.ts";
import { createJobs } from "../jobs/jobs.ts";
import { startRunners } from "../jobs/job.ts";
import { createMetrics } from "../metrics.ts";
import { namingDependency } from "../platform/probe.ts";
import { openPlatform, type Platform, type PlatformOptions } from "../platform.ts";
import { createGameServer, type InternalServer } from "../rooms/game-server.ts";
import { createLiveRooms } from "../rooms/inspect-rooms.ts";
import { VERSION } from "../version.ts";
import { listen, type ListenAddress, requireFreePort, stopListening, whenClosed } from "./listening.ts";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * A running process; `stop` completes the work in progress and releases all resources. Before that it goes on
 * for SHUTDOWN_DELAY_MS, not ready, so that a balancer sees it; `hurry` ends this wait.
 */
export type Running = {
  app: App;
  /** Undefined in a process without the web role. */
  address: { host: string; port: number } | undefined;
  /** Where TLS is spoken as custom domains; undefined where it is not. */
  tlsPort: number | undefined;
  /** Where METRICS_PORT is open; undefined without one. */
  operators: { host: string; port: number } | undefined;
  stop(hurry?: AbortSignal): Promise<void>;
};

const placeOf = ({ host, port }: Config): ListenAddress => ({ host, port, names: ["HOST", "PORT"] });

/** Starts a process in the roles of `config`: database, migrations, jobs, HTTP and rooms, in this order. */
export const startServer = async (
  config: Config,
  log: Logger,
  options: PlatformOptions = {},
): Promise<Running> => {
  if (config.roles.has("web")) await requireFreePort(placeOf(config));
  const platform = await openPlatform(config, log, options);
  try {
    return await startOn(platform, config, log);
  } catch (error) {
    await platform.close();
    throw config.mode === "cluster" ? namingDependency(error) : error;
  }
};

const startOn = async (platform: Platform, config: Config, log: Logger): Promise<Running> => {
  const applied = await platform.database.migrateUp();
  if (applied.length > 0) log.info({ migrations: applied }, "migrations applied");
  const newer = (await platform.database.migrationStates()).filter(({ isNewer }) => isNewer);
  if (newer.length > 0)
    log.warn(
      { migrations: newer.map(({ name }) => name) },
      "the database belongs to a newer version of Laurel: run that version",
    );
  await platform.followDatabase?.();
  const state = { isStopping: false };
  const made = createApp({ config, log, metrics: createMetrics(config), platform });
  const liveRooms = config.roles.has("web") ? createLiveRooms(made, platform.driver, VERSION) : undefined;
  const app = withStopping({ ...made, liveRooms }, state);
  await preparePartitions(app);
  await checkWarehouse(app);
  await subscribeKeyChanges(app.topics);
  watchDatabase(app, platform);
  const operators = config.operators && (await openOperatorPort(app, config.operators));
  const web = config.roles.has("web") ? await openWeb(app, platform) : undefined;
  if (config.roles.has("worker")) await app.queue.start(startRunners(app, createJobs()));
  return {
    app,
    ...placesOf(web, config),
    operators: operators?.address,
    stop: async (hurry) => {
      state.isStopping = true;
      if (web) await delay(config.shutdownDelayMs, undefined, { signal: hurry }).catch(() => undefined);
      if (web) await closeWeb(web);
      // Concurrently: a mail being sent must not delay the process for longer than the mailer allows.
      await Promise.all([app.queue.close(), app.mailer.close()]);
      await operators?.close();
      await platform.close();
    },
  };
};

const placesOf = (web: Web | undefined, { host }: Config): Pick<Running, "address" | "tlsPort"> => {
  const bound = web?.server.address() as AddressInfo | undefined;
  return { address: bound && { host, port: bound.port }, tlsPort: portOf(web?.tls) };
};

/** Without a partition of their week, rows go to the default one: a start need not fail for it. */
const preparePartitions = async ({ transact, log }: App): Promise<void> => {
  try {
    await transact(ensurePartitions);
  } catch (err) {
    log.warn({ err }, "partitions could not be created; the job that does so every hour tries again");
  }
};

/** A directory that cannot be written is an error of the start; a bucket may answer later. */
const checkWarehouse = async ({
  config: { roles, warehouse: settings },
  warehouse,
  log,
}: App): Promise<void> => {
  if (!warehouse || !roles.has("worker")) return;
  const store = await warehouse.store();
  if (settings?.store.kind === "directory") return store.check();
  store.check().catch((err: unknown) => log.error({ err }, "the warehouse does not work; it is tried again"));
};

/** Lets the metrics read the queues and the connections to the database at each scrape. */
const watchDatabase = (app: App, { database }: Platform): void => {
  const { metrics, transact, secretBox, warehouse, acme } = app;
  metrics.watchQueues(() =>
    transact(async (work) => ({ ...(await readLags(work)), ...(await readQueues(work)) })),
  );
  metrics.watchTables(() => transact(({ db }) => readTableSizes(db)));
  metrics.watchSecrets(() => transact((work) => countOldSealed(work, secretBox)));
  if (acme) metrics.watchCertificates(() => transact(readOverdueRenewals));
  if (warehouse) metrics.warehouse.watchLag(() => transact(readWarehouseLag));
  if (database.pool) metrics.watchPool(database.pool);
};

/** A stopping process is not ready, whatever the state of its dependencies. */
const withStopping = (app: App, state: { isStopping: boolean }): App => ({
  ...app,
  health: async () => [
    ...(await app.health()),
    ...(state.isStopping ? [{ name: "process", ok: false, message: "is stopping" }] : []),
  ],
});

/** How often idle connections are closed while stopping, in ms. */
const IDLE_SWEEP_MS = 100;
/**
 * During this time connections are closed with the response to their next request: one that is closed while
 * idle may just be about to carry a request, which would fail.
 */
const IDLE_GRACE_MS = 2_000;

/** Tracks the open connections of a server. */
const connectionsOf = (server: HttpServer): ReadonlySet<Socket> => {
  const open = new Set<Socket>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return open;
};

const openWeb = async (app: App, { presence, driver, peers }: Platform) => {
  const server = guardedServer(app);
  const sockets = connectionsOf(server);
  const express = createHttp(app, routes, describeInThread);
  const internalServer = peers && (await openInternalServer(app, express));
  const parts = { server, express, presence, driver, version: VERSION };
  const game = await createGameServer(app, { ...parts, ...(internalServer ? { internalServer } : {}) });
  await listen(server, placeOf(app.config));
  const tls = await openTlsPort(app, server);
  return { server, tls, sockets, game };
};
/** Connections of `tls`, which is undefined where TLS is not spoken, are the server's too. */
type Web = Awaited<ReturnType<typeof openWeb>>;

/** Pages that operators request from one process among several that share a port. */
const OWN_PAGES = new Set(["/metrics", "/health", "/health/live", "/health/ready"]);

/** Opens the server by which other processes reach the rooms of this one. */
const openInternalServer = async (app: App, express: RequestListener): Promise<InternalServer> => {
  const server = guardedServer(app);
  server.on("request", (request, response) => {
    if (OWN_PAGES.has(request.url?.split("?", 1)[0] ?? "")) express(request, response);
    else response.writeHead(404, { Connection: "close" }).end();
  });
  const { internal } = app.config;
  // node:cluster would share the port among its workers; this one is exclusive to this process.
  await listen(server, { ...internal, exclusive: true, names: ["INTERNAL_HOST", "INTERNAL_PORT"] });
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    await stopListening(server);
    server.closeIdleConnections();
  };
  return { server, address: `${internal.host}:${port}`, close };
};

const allClosed = async (servers: readonly (TcpServer | undefined)[]): Promise<void> => {
  const listening = servers.filter((one) => one !== undefined && one.listening);
  await Promise.all(listening.map((one) => whenClosed(one!)));
};

/**
 * Closes the rooms first, so that clients go elsewhere; then accepts no more connections, and completes
 * requests in progress. If several processes share a port, the others get new connections at once.
 */
const closeWeb = async ({ server, tls, sockets, game }: Web): Promise<void> => {
  const closed = server.listening ? allClosed([server, tls]) : undefined;
  const stopBoth = async (): Promise<void> => {
    await stopListening(server);
    if (tls) await stopListening(tls);
  };
  if (cluster.isWorker) await stopBoth();
  await game.shutdown();
  if (!closed) return;
  await stopBoth();
  await Promise.race([closed, delay(IDLE_GRACE_MS)]);
  // Opened in advance, as browsers and load balancers do: Node counts it as busy until its headers time out.
  for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  // A kept-alive connection is idle only between requests, so one check is not enough.
  const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS);
  await closed;
  clearInterval(sweep);
};

const SCRIPT = join(import.meta.dirname, "../../scripts/console.mjs");

type Build = { config: Pick<Config, "consoleDir" | "isConsoleBuilt">; log: Logger };

/**
 * Builds the console beside the server where its sources have changed, and says so when it is done. It ends
 * with this process.
 * @param stopping aborted when the process is asked to stop
 */
export const buildConsole = ({ config, log }: Build, stopping: AbortSignal): void => {
  const folder = dirname(config.consoleDir);
  if (!config.isConsoleBuilt || !existsSync(join(folder, "package.json"))) return;
  // A process group of its own, so that npm and what it has started end with it.
  const child = spawn(process.execPath, [SCRIPT, "--background", folder], {
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const end = (): void => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, "SIGKILL");
  };
  process.once("exit", end);
  stopping.addEventListener("abort", end);
  child.once("error", (err) => log.warn({ err }, "the console could not be built"));
  child.once("close", (code) => {
    process.off("exit", end);
    const said = output.trim();
    if (stopping.aborted || said === "") return;
    if (code === 0) log.info(said);
    else log.warn(said);
  });
};
