import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { CloseCode, connectClientToRoom, matchMaker, Protocol, Room, ServerError } from "@colyseus/core";
import { type TransportOptions, WebSocketClient, WebSocketTransport } from "@colyseus/ws-transport";
import type { WebSocket } from "ws";
import type { App } from "../app.ts";
import { errorObject, socketError } from "./room-errors.ts";
import { FramedSocket, isReadable } from "./frames.ts";
import { HEARTBEAT_SECONDS, MESSAGES_PER_SECOND_MAX } from "./messages.ts";

/** Takes the place of the process in the addresses that SDKs before 0.17 make. */
const OLD_SDK_PROCESS = "old-sdk";

/** Tells the developer of such a client. Also fits into the reason of a close. */
export const OLD_SDK = "this server needs the Colyseus SDK 0.18 (npm: @colyseus/sdk)";

type Seat = { name: string; roomId: string };

/**
 * Returns the part of a seat that only SDKs before 0.17 read, and without which they fail with an obscure
 * error: it leads them to an address where a socket is told which version is needed.
 */
export const seatForOldSdk = ({ name, roomId }: Seat) => ({
  room: { name, roomId, processId: OLD_SDK_PROCESS },
});

/** Whether the address of a socket was made from such a seat. */
export const isOldSdk = ({ url = "" }: { url?: string | undefined }): boolean =>
  url.startsWith(`/${OLD_SDK_PROCESS}/`);

/** Maximum size of a client's message. */
const MESSAGE_MAX_BYTES = 16 * 1024;
/** Maximum number of sockets of one process, without those that it pipes to others. */
const SOCKETS_MAX = 20_000;
const PINGS_MISSED_MAX = 2;
/** Milliseconds after which a client that does not answer a close or a probe is terminated. */
const CLOSE_TIMEOUT_MS = 2_000;
/** HTTP's code for a client that needs another version. */
const UPGRADE_REQUIRED = 426;
/** How long a socket without a seat may measure its latency. */
const LATENCY_MS = 1_000;

/** Close codes with a count of their own; clients may send any. */
const COUNTED = new Set([1000, 1001, 1005, 1006, 1009, 4000, 4001, 4002, 4003, 4010, 4013, 4401, 4403]);

/** Refuses an upgrade, and closes the socket. */
export const refuseUpgrade = (socket: Duplex, status: number): void => {
  socket.on("error", () => socket.destroy());
  socket.resume();
  const retry = status === 503 ? "Retry-After: 1\r\n" : "";
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${retry}`;
  socket.end(`${head}Connection: close\r\nContent-Length: 0\r\n\r\n`, () => socket.destroy());
};

/** The seat that an upgrade requests. */
type SeatAddress = { roomId: string; sessionId: string; reconnectionToken?: string; skipHandshake: boolean };

const ROOM_PATH = /^\/[A-Za-z0-9_-]{1,32}\/([A-Za-z0-9_-]{1,64})$/;
const ID = /^[A-Za-z0-9_-]{1,64}$/;

const idIn = (query: URLSearchParams, name: string): string => {
  const text = query.get(name) ?? "";
  return ID.test(text) ? text : "";
};

/** Parses an address; invalid ids become "", which names no seat. Undefined when none is requested. */
const readSeat = (address = "/"): SeatAddress | undefined => {
  const [path = "", query] = address.split("?", 2);
  const values = new URLSearchParams(query);
  const roomId = ROOM_PATH.exec(path)?.[1] ?? "";
  if (roomId === "" && !values.has("sessionId")) return undefined;
  const reconnectionToken = idIn(values, "reconnectionToken");
  return {
    roomId,
    sessionId: idIn(values, "sessionId"),
    ...(reconnectionToken === "" ? {} : { reconnectionToken }),
    skipHandshake: values.has("skipHandshake"),
  };
};

/** Core looks ids up in plain objects, where `__proto__` and `constructor` exist but are no rooms. */
const localRoom = (roomId: string): Room | undefined => {
  const room: unknown = matchMaker.getLocalRoomById(roomId);
  return room instanceof Room ? room : undefined;
};

/** Rooms need nothing of core's request context: the client was authenticated when the seat was reserved. */
const CONTEXT = { ip: undefined, headers: new Headers() };

/** Answers a client that measures its latency, for a moment. */
const echo = (socket: FramedSocket): void => {
  const timer = setTimeout(() => socket.close(CloseCode.NORMAL_CLOSURE), LATENCY_MS);
  let pings = 0;
  socket.on("message", () => {
    if (++pings <= MESSAGES_PER_SECOND_MAX) socket.send(Buffer.of(Protocol.PING));
  });
  socket.once("close", () => clearTimeout(timer));
};

/** By a frame and a close, of which some versions show the one and some the other. */
const refuseOldSdk = (socket: FramedSocket): void =>
  new WebSocketClient("old", socket).error(UPGRADE_REQUIRED, OLD_SDK, () =>
    socket.close(CloseCode.WITH_ERROR, OLD_SDK),
  );

/**
 * Ends a socket unless it answers now. A client that comes back over another network, whose old socket never
 * closed, gets its seat so long before the heartbeat would free it; a socket that lives keeps its seat.
 */
const probe = (socket: FramedSocket): void => {
  const timer = setTimeout(() => socket.terminate(), CLOSE_TIMEOUT_MS);
  const lives = () => {
    clearTimeout(timer);
    socket.off("pong", lives).off("close", lives);
  };
  socket.on("pong", lives).on("close", lives).ping();
};

/** The counter that core increments at each heartbeat. */
type Counted = FramedSocket & { pingCount: number };

/**
 * Core's sockets, accepted one by one from whichever server they came to. Client data reaches core's code at
 * these places, each with its safeguard:
 * - the address of an upgrade (room, session, reconnection token): `readSeat` and `localRoom`. Core's own
 *   handler, which accepts any name for a room and logs the resulting errors, is not used;
 * - a seat that does not exist, was taken or was lost: core throws, `#seat` reports it by a frame and a
 *   close;
 * - messages: `isReadable` before core decodes any; those without a handler go to the rooms' own (LiveRoom),
 *   as core would put their name into the close reason;
 * - bodies of messages: `parse` and `asJson`; what a handler throws is answered, or logged as a bug;
 * - input frames, byte messages, flags of the first byte: no room accepts any, so `isReadable` refuses them;
 * - rates: core counts messages, `FramedSocket` control frames; ws bounds a message and its fragments;
 * - close codes and reasons that core or ws pass on: `FramedSocket.close` makes them fit;
 * - malformed WebSocket frames: ws closes and emits an error, which is not logged here;
 * - any other exception of a listener: `FramedSocket.emit` ends the socket, with one line in the log;
 * - matchmaking (name of the room, body, token): `answerMatchmake`; core's route is not used;
 * - the request itself, before all others: `guardedHttpServer`.
 */
export class Sockets extends WebSocketTransport {
  readonly #app: App;

  constructor(app: App) {
    super({
      noServer: true,
      maxPayload: MESSAGE_MAX_BYTES,
      WebSocket: FramedSocket,
      closeTimeout: CLOSE_TIMEOUT_MS,
    } as TransportOptions);
    this.#app = app;
    this.autoTerminateUnresponsiveClients(HEARTBEAT_SECONDS * 1_000, PINGS_MISSED_MAX);
  }

  get size(): number {
    return this.wss.clients.size;
  }

  /** Completes the handshake; a missing seat is reported over the socket, as the SDK expects. */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (this.size >= SOCKETS_MAX) return refuseUpgrade(socket, 503);
    this.wss.handleUpgrade(request, socket, head, (opened: WebSocket) => {
      this.#watch(opened as Counted);
      if (isOldSdk(request)) refuseOldSdk(opened as FramedSocket);
      else void this.#seat(opened as FramedSocket, readSeat(request.url));
    });
  }

  override shutdown(): void {
    clearInterval(this.pingInterval);
    for (const socket of this.wss.clients) socket.terminate();
    this.wss.close();
  }

  #watch(socket: Counted): void {
    const { log, metrics } = this.#app;
    socket.watch = {
      isReadable,
      onThrow: (err, event) => log.error({ err, event }, "a socket was ended by what its listener threw"),
    };
    socket.pingCount = 0;
    socket.on("pong", () => {
      socket.pingCount = 0;
    });
    // ws closes the socket by itself; an error without a listener would end the process.
    socket.on("error", (err) => log.debug({ err }, "a socket was broken by its client"));
    socket.on("close", (code: number) => {
      metrics.socketCloses.inc({ code: COUNTED.has(code) ? String(code) : "other" });
    });
  }

  /** Gives a socket its seat, or sends the reason for refusing it. Never rejects. */
  async #seat(socket: FramedSocket, address: SeatAddress | undefined): Promise<void> {
    if (!address) return echo(socket);
    const { roomId, sessionId, ...options } = address;
    const client = new WebSocketClient(sessionId, socket);
    const room = localRoom(roomId);
    const held = room?.clients.getById(sessionId);
    if (held && held.reconnectionToken === options.reconnectionToken) probe(held.ref as FramedSocket);
    try {
      await connectClientToRoom(room, client, CONTEXT, options);
    } catch (thrown) {
      const isLeft = socket.readyState !== socket.OPEN;
      if (!isLeft && !(thrown instanceof ServerError) && !errorObject(thrown))
        this.#app.log.error({ err: thrown, roomId }, "a socket was not seated");
      const { code, message } = socketError(thrown);
      const closeCode = options.reconnectionToken ? CloseCode.FAILED_TO_RECONNECT : CloseCode.WITH_ERROR;
      client.error(code, message, () => socket.close(closeCode));
    }
  }
}
