import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import { type App, createApp } from "../app.ts";
import type { Config } from "../config.ts";
import { followKeyChanges } from "../domain/api-keys/changes.ts";
import { ensurePartitions } from "../domain/tracking/partitions.ts";
import { guardedHttpServer } from "../http/guard.ts";
import { routes } from "../http/routes.ts";
import { createHttp } from "../http/server.ts";
import { jobs } from "../jobs/jobs.ts";
import { createMetrics } from "../metrics.ts";
import { openPlatform, type Platform, type PlatformOptions } from "../platform.ts";
import { createGameServer, type GameServer } from "../rooms/game-server.ts";

/** A running process; `stop` finishes what it has in hand and gives everything back. */
export type Running = {
  app: App;
  /** Undefined in a process without the web role. */
  address: { host: string; port: number } | undefined;
  stop(): Promise<void>;
};

/** Starts a process in the roles of `config`: database, migrations, jobs, HTTP and rooms, in this order. */
export const startServer = async (
  config: Config,
  log: Logger,
  options: PlatformOptions = {},
): Promise<Running> => {
  const platform = await openPlatform(config, log, options);
  try {
    return await startOn(platform, config, log);
  } catch (error) {
    await platform.close();
    throw error;
  }
};

const startOn = async (platform: Platform, config: Config, log: Logger): Promise<Running> => {
  const applied = await platform.database.migrateUp();
  if (applied.length > 0) log.info({ migrations: applied }, "migrations applied");
  const state = { isStopping: false };
  const app = withStopping(createApp({ config, log, metrics: createMetrics(), platform }), state);
  await app.transact(ensurePartitions);
  await followKeyChanges(app.topics);
  const web = config.roles.has("web") ? await openDoor(app, platform) : undefined;
  if (config.roles.has("worker")) await app.queue.start(app, jobs);
  const bound = web?.server.address() as AddressInfo | undefined;
  return {
    app,
    address: bound && { host: config.host, port: bound.port },
    stop: async () => {
      state.isStopping = true;
      if (web) await closeDoor(web);
      // Together: a send in hand must not hold the process up for longer than the mailer allows.
      await Promise.all([app.queue.close(), app.mailer.close()]);
      await platform.close();
    },
  };
};

/** A process that is stopping is not ready, whatever its dependencies say. */
const withStopping = (app: App, state: { isStopping: boolean }): App => ({
  ...app,
  health: async () => [
    ...(await app.health()),
    ...(state.isStopping ? [{ name: "process", ok: false, message: "is stopping" }] : []),
  ],
});

/** How often connections that have become idle are closed while stopping, in ms. */
const IDLE_SWEEP_MS = 100;

type Door = { server: HttpServer; game: GameServer };

const openDoor = async (app: App, { presence, driver }: Platform): Promise<Door> => {
  const server = guardedHttpServer();
  const game = await createGameServer(app, { server, express: createHttp(app, routes), presence, driver });
  await listen(server, app.config);
  return { server, game };
};

/** What to do when the server cannot listen, by the code of the error. */
const LISTEN_REMEDIES: Record<string, (port: number) => string> = {
  EADDRINUSE: (port) =>
    `another process listens there (lsof -i :${port} says which). ` +
    `Stop it, or take another port: PORT=${port + 1} npm start`,
  EACCES: () => "ports below 1024 need rights. Take another one: PORT=2567 npm start",
  EADDRNOTAVAIL: () =>
    "HOST is not an address of this machine. Leave it out, or HOST=0.0.0.0 for all of them",
};

const listen = async (server: HttpServer, { host, port }: Config): Promise<void> => {
  server.listen(port, host);
  try {
    await once(server, "listening");
  } catch (error) {
    const { code = "", message } = error as NodeJS.ErrnoException;
    const remedy = LISTEN_REMEDIES[code]?.(port) ?? message;
    throw new Error(`Cannot listen on ${host}, port ${port}: ${remedy}`, { cause: error });
  }
};

/** Rooms first, so that clients go elsewhere; then no new connections, and requests in hand are finished. */
const closeDoor = async ({ server, game }: Door): Promise<void> => {
  await game.shutdown();
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  // A connection kept alive by its client is idle only between requests, so one look is not enough.
  const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS);
  await closed;
  clearInterval(sweep);
};
