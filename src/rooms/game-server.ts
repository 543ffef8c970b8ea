import type { IncomingMessage, RequestListener, Server as HttpServer, ServerResponse } from "node:http";
import { type MatchMakerDriver, matchMaker, type Presence, registerRoomDefinitions } from "@colyseus/core";
import { setLogger } from "@colyseus/core/Logger";
import { Encoder } from "@colyseus/schema";
import { WebSocketTransport } from "@colyseus/ws-transport";
import type { App } from "../app.ts";
import { answerMatchmake, isMatchmake, METHODS } from "./matchmaking.ts";
import { HEARTBEAT_SECONDS } from "./messages.ts";
import { gameRooms } from "./rooms.ts";

/** The largest message of a client. */
export const MESSAGE_MAX_BYTES = 16 * 1024;
const PINGS_MISSED_MAX = 2;
/** First size of an encode buffer; rooms with more state say so. */
const STATE_BYTES = 2_048;

/** What a browser may send beyond what it always may. */
const REQUEST_HEADERS =
  "Origin, X-Requested-With, Content-Type, Accept, Authorization, X-API-Key, X-Idempotency-Key, " +
  "X-Project-ID, X-Request-Id";
/** What a page may read of an answer. */
const RESPONSE_HEADERS =
  "X-Request-Id, Retry-After, X-Total-Estimated, X-RateLimit-Limit, X-RateLimit-Remaining, " +
  "X-RateLimit-Reset, X-Idempotent-Replayed, X-Deprecated, Sunset";

/**
 * Any origin may call: nothing here is authenticated by what a browser adds by itself. Credentials are
 * allowed because the SDK asks for them, not because a cookie would be read.
 */
const CORS_HEADERS = {
  "Access-Control-Allow-Headers": REQUEST_HEADERS,
  "Access-Control-Allow-Methods": "GET,HEAD,PUT,PATCH,POST,DELETE",
  "Access-Control-Allow-Credentials": "true",
  "Access-Control-Expose-Headers": RESPONSE_HEADERS,
  "Access-Control-Max-Age": "600",
  Vary: "Origin",
};

export type GameServerOptions = {
  /** Takes both HTTP and sockets. The caller makes it listen, and closes it. */
  server: HttpServer;
  /** Answers every request that is not about seats in rooms. */
  express: RequestListener;
  presence: Presence;
  driver: MatchMakerDriver;
  /** `host:port` by which clients reach this process and no other. Absent: the address they came by. */
  publicAddress?: string;
};

export type GameServer = {
  /**
   * Tells every client to go (`session.closed` SHUTDOWN, close code 4001), waits until the rooms are gone
   * and leaves the listing of rooms. Joins answer 503 from the start; other requests are served on.
   */
  shutdown(): Promise<void>;
};

/**
 * Attaches rooms and requests to an HTTP server; ready when it resolves. One in a process at a time, because
 * core's matchmaker is one. Core's own Server class is left out: its request handler rejects un-awaited on a
 * malformed Host, and its matchmaking route answers 200 for errors with a text code.
 */
export const createGameServer = async (app: App, options: GameServerOptions): Promise<GameServer> => {
  const { server, express, presence, driver, publicAddress } = options;
  Encoder.BUFFER_SIZE = STATE_BYTES;
  setLogger(coreLog(app));
  matchMaker.controller.exposedMethods = [...METHODS];
  presence.setMaxListeners(0);
  // The load balancer has chosen this process already; asking another one would cost a round trip that may
  // time out.
  await matchMaker.setup(presence, driver, publicAddress, async () => matchMaker.processId);
  registerRoomDefinitions(gameRooms(app));
  const transport = new WebSocketTransport({
    noServer: true,
    maxPayload: MESSAGE_MAX_BYTES,
    pingInterval: HEARTBEAT_SECONDS * 1_000,
    pingMaxRetries: PINGS_MISSED_MAX,
  });
  await matchMaker.accept();
  app.metrics.watchRooms(() => {
    const { roomCount, ccu } = matchMaker.stats.local;
    return { rooms: roomCount, clients: ccu };
  });
  transport.attachToServer(server);
  server.on("request", (request, response) => serve(app, express, request, response));
  return {
    shutdown: async () => {
      await matchMaker.gracefullyShutdown();
      transport.shutdown();
      await driver.shutdown();
    },
  };
};

const serve = (
  app: App,
  express: RequestListener,
  request: IncomingMessage,
  response: ServerResponse,
): void => {
  for (const [name, value] of Object.entries(CORS_HEADERS)) response.setHeader(name, value);
  response.setHeader("Access-Control-Allow-Origin", request.headers.origin ?? "*");
  // An answer that kept its connection would keep the closing server waiting for it.
  if (matchMaker.state === matchMaker.MatchMakerState.SHUTTING_DOWN)
    response.setHeader("Connection", "close");
  if (request.method === "OPTIONS") response.writeHead(204).end();
  else if (isMatchmake(request)) void answerMatchmake(app, request, response);
  else express(request, response);
};

/** Core's own lines, in the log of the application. */
const coreLog = ({ log }: App) => {
  const child = log.child({ part: "colyseus" });
  const line =
    (level: "trace" | "debug" | "info" | "warn" | "error") =>
    (...parts: unknown[]): void =>
      child[level](parts.map(String).join(" "));
  return {
    trace: line("trace"),
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
  };
};
