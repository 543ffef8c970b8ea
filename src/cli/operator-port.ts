import type { Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { App } from "../app.ts";
import { guardedHttpServer } from "../http/guard.ts";
import { createOperatorHttp } from "../http/server.ts";
import { listen, stopListening } from "./listening.ts";

type Place = { host: string; port: number };

/** The port of a process for its operators. */
export type OperatorPort = { address: Place; close(): Promise<void> };

/** How often a port that is taken is tried again, in ms. */
const TRY_EVERY_MS = 1_000;

/** An HTTP server that logs one line when a bug ends a connection. */
export const guardedServer = ({ log }: App): HttpServer =>
  guardedHttpServer((err, event) =>
    log.error({ err, event }, "a connection was ended by what was thrown on it"),
  );

const tryToOpen = async (app: App, { host, port }: Place): Promise<HttpServer> => {
  const server = guardedServer(app);
  server.on("request", createOperatorHttp(app));
  // node:cluster would share the port among its workers; this one is exclusive to this process.
  await listen(server, { host, port, exclusive: true, names: ["METRICS_HOST", "METRICS_PORT"] });
  return server;
};

const isTaken = ({ cause }: Error): boolean => (cause as NodeJS.ErrnoException).code === "EADDRINUSE";

/**
 * Opens the port of METRICS_PORT: health and metrics of this process. If the port is taken, the process works
 * without it and tries again: during a reload the process that is replaced still has it.
 * @throws Error that says what to do, for other reasons
 */
export const openOperatorPort = async (app: App, place: Place): Promise<OperatorPort> => {
  const stopping = new AbortController();
  const open = async (): Promise<HttpServer | undefined> => {
    for (let isFirst = true; !stopping.signal.aborted; isFirst = false) {
      try {
        return await tryToOpen(app, place);
      } catch (error) {
        if (!isTaken(error as Error)) throw error;
        if (isFirst) app.log.warn({ err: error }, "METRICS_PORT is taken: it is tried again every second");
        else await delay(TRY_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => undefined);
      }
    }
    return undefined;
  };
  const opened = open();
  const server = await Promise.race([opened, delay(TRY_EVERY_MS, undefined, { ref: false })]);
  opened.catch((err: unknown) => app.log.error({ err }, "METRICS_PORT could not be opened"));
  const bound = server?.address() as AddressInfo | undefined;
  return {
    address: { host: place.host, port: bound?.port ?? place.port },
    close: async () => {
      stopping.abort();
      const last = await opened.catch(() => undefined);
      if (!last) return;
      await stopListening(last);
      last.closeAllConnections();
    },
  };
};
