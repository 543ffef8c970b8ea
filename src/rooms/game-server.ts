import type { IncomingMessage, RequestListener, Server as HttpServer, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { matchMaker, type Presence, type RegisteredHandler, registerRoomDefinitions } from "@colyseus/core";
import { setLogger } from "@colyseus/core/Logger";
import { Encoder } from "@colyseus/schema";
import type { App } from "../app.ts";
import { admitRoom, Gate, maySpread } from "./admission.ts";
import { countRooms, type Listing, ListingRepair } from "./listing.ts";
import { answerPeerRequests } from "./inspect-rooms.ts";
import { answerMatchmake, isJoinAddress, isMatchmake, METHODS, refusedByHost } from "./matchmaking.ts";
import type { GameRoom } from "./mirror-room.ts";
import { hasPass, Pipes } from "./pipes.ts";
import type { RoomKind } from "../domain/kernel/live-rooms.ts";
import { chatRoom } from "./chat-room.ts";
import { eventsRoom } from "./events-room.ts";
import { leaderboardRoom } from "./leaderboard-room.ts";
import { lobbiesRoom } from "./lobbies-room.ts";
import { lobbyRoom } from "./lobby-room.ts";
import { playerRoom } from "./player-room.ts";
import { isOldSdk, refuseUpgrade, Sockets } from "./sockets.ts";
import { watchOrphans } from "./lobby-orphans.ts";

/** All rooms, by the name under which clients join. */
export const gameRooms = (app: App): Record<RoomKind, GameRoom> => ({
  player: playerRoom(app),
  leaderboard: leaderboardRoom(app),
  chat: chatRoom(app),
  lobby: lobbyRoom(app),
  lobbies: lobbiesRoom(app),
  events: eventsRoom(app),
});

/**
 * Limits on joins per process: how many are processed at once, how many of a tenant wait, and for how long.
 * Core tries to get a seat for longer than a client should wait.
 */
const JOINS = {
  activeMax: { ofOwner: 32, ofProcess: 64 },
  workMaxMs: 8_000,
  waitingMax: 2_000,
  waitMaxMs: 5_000,
};
/** Initial size of an encode buffer; rooms with more state override it. */
const STATE_BYTES = 2_048;

/** Request headers that a browser may send beyond the safelisted ones. */
const REQUEST_HEADERS =
  "Origin, X-Requested-With, Content-Type, Accept, Authorization, X-API-Key, X-Idempotency-Key, " +
  "X-Project-ID, X-Request-Id, Content-Encoding, If-None-Match, traceparent, tracestate, " +
  "baggage";
/** Response headers that a page may read. */
const RESPONSE_HEADERS =
  "ETag, X-Request-Id, Retry-After, X-Total-Estimated, X-RateLimit-Limit, X-RateLimit-Remaining, " +
  "X-RateLimit-Reset, X-Idempotent-Replayed, X-Deprecated, Sunset, X-Data-Age-Ms";

/**
 * Any origin may call, without credentials: the one thing that is authenticated by what a browser adds by
 * itself, the session's cookie, asks for a header that no page of another origin may send.
 */
const CORS_HEADERS = {
  "Access-Control-Allow-Headers": REQUEST_HEADERS,
  "Access-Control-Allow-Methods": "GET,HEAD,PUT,PATCH,POST,DELETE",
  "Access-Control-Expose-Headers": RESPONSE_HEADERS,
  "Access-Control-Max-Age": "600",
  Vary: "Origin",
};

type GameServerOptions = {
  /** Handles both HTTP and sockets. The caller makes it listen, and closes it. */
  server: HttpServer;
  /** Handles every request that is not about seats in rooms. */
  express: RequestListener;
  presence: Presence;
  driver: Listing;
  /** Version of this program, for operators. */
  version: string;
  /** Where other processes connect to the rooms of this one. Absent: there are none. */
  internalServer?: InternalServer;
  /** `host:port` at which clients reach this very process. Absent: the address by which they came. */
  publicAddress?: string;
};

/** A server that listens for the other processes only. */
export type InternalServer = {
  server: HttpServer;
  /** `host:port` at which they reach it. */
  address: string;
  /** Stops accepting connections. */
  close(): Promise<void>;
};

export type GameServer = {
  /**
   * Ends every session (`session.closed` SHUTDOWN, close code 4001), waits until the rooms are disposed and
   * leaves the listing of rooms. Joins answer 503 from the start; other requests are still served.
   */
  shutdown(): Promise<void>;
};

/** Parts of a process that handle rooms and sockets. */
type Parts = { sockets: Sockets; pipes: Pipes; gate: Gate; repair: ListingRepair };

/**
 * Attaches rooms and requests to an HTTP server; ready when it resolves. Only one per process, because core's
 * matchmaker is a singleton. Core's own Server class is not used: its request handler leaves a rejection
 * unhandled on a malformed Host, and its matchmaking route answers 200 for errors with a text code.
 */
export const createGameServer = async (app: App, options: GameServerOptions): Promise<GameServer> => {
  const { server, express, presence, driver, internalServer, version, publicAddress } = options;
  Encoder.BUFFER_SIZE = STATE_BYTES;
  setLogger(coreLog(app));
  matchMaker.controller.exposedMethods = [...METHODS];
  presence.setMaxListeners(0);
  const repair = new ListingRepair(app, driver);
  const kinds = gameRooms(app);
  driver.maySpread = (listed) => maySpread(kinds, listed);
  // The load balancer has chosen this process already; another choice would cost a round trip that may time
  // out.
  await matchMaker.setup(presence, driver, publicAddress, async (_name, joined) => {
    await admitRoom(joined);
    return matchMaker.processId;
  });
  registerRoomDefinitions(handlersOf(kinds));
  const parts: Parts = { sockets: new Sockets(app), pipes: new Pipes(app), gate: new Gate(JOINS), repair };
  if (internalServer) await openInternalServer(app, internalServer, parts);
  await matchMaker.accept();
  repair.start();
  const watching = new AbortController();
  void watchOrphans(app, watching.signal);
  const endAnswers = await answerPeerRequests(app, version);
  watch(app, parts);
  server.on("upgrade", (request, socket, head) => {
    route(app, parts, { request, socket, head }).catch((err: unknown) => {
      socket.destroy();
      app.log.error({ err }, "an upgrade failed");
    });
  });
  server.on("request", (request, response) => serve(app, { express, ...parts }, request, response));
  return {
    shutdown: async () => {
      repair.stop();
      parts.gate.close();
      watching.abort();
      endAnswers();
      // From now on no process pipes sockets to this one.
      await app.peers?.leave();
      await matchMaker.gracefullyShutdown();
      parts.pipes.close();
      parts.sockets.shutdown();
      await internalServer?.close();
      await driver.shutdown();
    },
  };
};

/** Opens the rooms of this process to the others; upgrades without a pass are refused. */
const openInternalServer = async (
  app: App,
  { server, address }: InternalServer,
  { sockets, pipes, repair }: Parts,
): Promise<void> => {
  const { processId } = matchMaker;
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (hasPass(app, request, processId)) sockets.accept(request, socket, head);
    else refuseUpgrade(socket, 403);
  });
  await app.peers?.join({
    processId,
    internalAddress: address,
    onLost: () => repair.onLost(),
    onDead: async (dead) => {
      app.log.info({ dead }, "a process has died");
      app.metrics.processesSwept.inc();
      pipes.cut(dead);
      await matchMaker.stats.excludeProcess(dead);
      await matchMaker.driver.cleanup?.(dead);
    },
  });
};

const watch = (app: App, { sockets, pipes, gate }: Parts): void => {
  app.metrics.watchRooms(() => ({
    rooms: countRooms(),
    clients: matchMaker.stats.local.ccu,
    sockets: sockets.size,
    piped: pipes.size,
    waitingJoins: gate.waiting,
  }));
};

type Upgrade = { request: IncomingMessage; socket: Duplex; head: Buffer };

/** Matches the process id in the path of a room's socket. */
const SOCKET_PATH = /^\/([A-Za-z0-9_-]{1,32})\/[A-Za-z0-9_-]{1,64}(?:\?|$)/;

/** Whither an upgrade goes: to another process, or to this one where it names none. */
type Target =
  | { refused: number }
  | { refused?: never; processId: string; internalAddress: string | undefined };

const HERE: Target = { processId: "", internalAddress: undefined };

const targetOf = async (app: App, request: IncomingMessage): Promise<Target> => {
  const refused = await refusedByHost(app, request);
  if (refused !== undefined) return { refused };
  const processId = SOCKET_PATH.exec(request.url ?? "")?.[1];
  const isHere = processId === undefined || processId === matchMaker.processId || isOldSdk(request);
  if (!app.peers || isHere) return HERE;
  try {
    return { processId, internalAddress: await app.peers.internalAddressOf(processId) };
  } catch (err) {
    app.log.warn({ err, processId }, "the process of a room could not be looked up");
    return { refused: 503 };
  }
};

/**
 * Accepts a socket for a room of this process, and pipes one for a room of another. When that one is dead or
 * never existed this process accepts it too, and reports over the socket that there is no such seat: an SDK
 * cannot tell why a handshake was refused. One by plain HTTP at a custom domain is refused before all that.
 */
const route = async (app: App, { sockets, pipes }: Parts, upgrade: Upgrade): Promise<void> => {
  const { request, socket, head } = upgrade;
  const onError = () => socket.destroy();
  socket.on("error", onError);
  const target = await targetOf(app, request);
  socket.off("error", onError);
  if (target.refused !== undefined) return refuseUpgrade(socket, target.refused);
  if (socket.destroyed) return;
  const { processId, internalAddress } = target;
  if (internalAddress === undefined) sockets.accept(request, socket, head);
  else pipes.open({ processId, internalAddress }, request, socket, head);
};

const serve = (
  app: App,
  { express, gate, repair }: { express: RequestListener; gate: Gate; repair: ListingRepair },
  request: IncomingMessage,
  response: ServerResponse,
): void => {
  for (const [name, value] of Object.entries(CORS_HEADERS)) response.setHeader(name, value);
  response.setHeader("Access-Control-Allow-Origin", request.headers.origin ?? "*");
  // The SDK of a game asks with credentials for a seat, where no cookie is read.
  if (isMatchmake(request)) response.setHeader("Access-Control-Allow-Credentials", "true");
  // A kept-alive connection would keep the closing server waiting.
  if (matchMaker.state === matchMaker.MatchMakerState.SHUTTING_DOWN)
    response.setHeader("Connection", "close");
  if (request.method === "OPTIONS" && isJoinAddress(request)) response.writeHead(204).end();
  else if (isMatchmake(request)) void answerMatchmake(app, { gate, repair }, request, response);
  else express(request, response);
};

const handlersOf = (kinds: Readonly<Record<string, GameRoom>>): Record<string, RegisteredHandler> =>
  Object.fromEntries(Object.entries(kinds).map(([name, { handler }]) => [name, handler]));

/** Forwards core's log lines to the application's log. */
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
