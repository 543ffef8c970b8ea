import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { CloseCode, connectClientToRoom, matchMaker, Protocol, Room, ServerError } from "@colyseus/core";
import { type TransportOptions, WebSocketClient, WebSocketTransport } from "@colyseus/ws-transport";
import type { WebSocket } from "ws";
import type { App } from "../app.ts";
import { errorObject, socketError } from "./authenticate.ts";
import { FramedSocket, HEARTBEAT_SECONDS, MESSAGES_PER_SECOND_MAX } from "./messages.ts";

/** Maximum length of a message name; the rooms' own are shorter than half of it. */
const MESSAGE_NAME_MAX_BYTES = 64;
/** Maximum nesting of a message's body; more than JSON_MAX_DEPTH is answered with 400. */
const DEPTH_MAX = 128;

/** Bits of the first byte that hold the message code; the others are flags that none of our clients sets. */
const CODE_MAX = 0x1f;

/** Thrown for a frame that a client may not send. */
class Unreadable extends Error {}

const refuse = (): never => {
  throw new Unreadable();
};

/** Cursor that reads a frame from left to right and never past its end. */
class Walk {
  readonly bytes: Buffer;
  at: number;
  /** Number of values of a record, by its tag; see RECORD. */
  records: Map<number, number> | undefined;

  constructor(bytes: Buffer, at: number) {
    this.bytes = bytes;
    this.at = at;
  }

  get isOver(): boolean {
    return this.at === this.bytes.length;
  }

  /** Skips a number of bytes. @returns the offset where they begin */
  skip(count: number): number {
    const from = this.at;
    if (count > this.bytes.length - from) refuse();
    this.at += count;
    return from;
  }

  /** Reads an unsigned number of 1, 2 or 4 bytes. */
  uint(size: number): number {
    return this.bytes.readUIntBE(this.skip(size), size);
  }
}

/** Sizes of length fields, by a tag's distance from the first of its three. */
const SIZES = [1, 2, 4] as const;

/** Returns the length of a text with this tag; undefined for a tag of any other type. */
const textLength = (walk: Walk, tag: number): number | undefined => {
  if (tag >= 0xa0 && tag <= 0xbf) return tag & 0x1f;
  return tag >= 0xd9 && tag <= 0xdb ? walk.uint(SIZES[tag - 0xd9]!) : undefined;
};

/** Bytes of a number by its tag, from 0xca (float) to 0xd3 (64 bits). */
const NUMBER_BYTES = [4, 8, 1, 2, 4, 8, 1, 2, 4, 8] as const;
const FIRST_NUMBER = 0xca;

/** Extensions that may occur, by tag: type and bytes of the encodings of undefined and of a time. */
const EXTENSIONS: Readonly<Record<number, { type: number; bytes: number }>> = {
  0xd4: { type: 0x00, bytes: 1 },
  0xd6: { type: 0xff, bytes: 4 },
  0xd7: { type: 0xff, bytes: 8 },
};
/** Tag of a 12-byte time; it is followed by the length. */
const LONG_TIME = 0xc7;

/**
 * Any other extension is refused: the decoder would turn them into errors, regular expressions, sets and
 * typed arrays, and take texts from elsewhere in the frame.
 */
const skipExtension = (walk: Walk, tag: number): void => {
  if (tag === LONG_TIME && walk.uint(1) !== 12) refuse();
  const known = tag === LONG_TIME ? { type: 0xff, bytes: 12 } : EXTENSIONS[tag];
  if (!known || walk.uint(1) !== known.type) return refuse();
  walk.skip(known.bytes);
};

/** Returns the number of values in an array with this tag; undefined for any other type. */
const itemsOf = (walk: Walk, tag: number): number | undefined => {
  if (tag >= 0x90 && tag <= 0x9f) return tag & 0x0f;
  return tag === 0xdc || tag === 0xdd ? walk.uint(tag === 0xdc ? 2 : 4) : undefined;
};

/** Returns the number of names and values in a map, likewise. */
const fieldsOf = (walk: Walk, tag: number): number | undefined => {
  if (tag >= 0x80 && tag <= 0x8f) return 2 * (tag & 0x0f);
  return tag === 0xde || tag === 0xdf ? 2 * walk.uint(tag === 0xde ? 2 : 4) : undefined;
};

/** How the SDK writes objects: the first one defines the names of a record and gives them a tag. */
const RECORD = { first: 0xd4, second: 0x72 } as const;

/** Returns the number of values of a record, by its tag or by the names that come first. */
const valuesOf = (walk: Walk, tag: number): number | undefined => {
  if (tag >= 0x40 && tag <= 0x7f) return walk.records?.get(tag);
  if (tag !== RECORD.first || walk.bytes[walk.at] !== RECORD.second) return undefined;
  walk.skip(1);
  const record = 0x40 | (walk.uint(1) & 0x3f);
  const names = itemsOf(walk, walk.uint(1)) ?? refuse();
  for (let i = 0; i < names; i++) walk.skip(textLength(walk, walk.uint(1)) ?? refuse());
  walk.records ??= new Map();
  walk.records.set(record, names);
  return names;
};

/** Values from -32 to 127 are in the tag itself, as are nil, false and true. */
const isWhole = (tag: number): boolean =>
  tag <= 0x7f || tag >= 0xe0 || tag === 0xc0 || tag === 0xc2 || tag === 0xc3;

const skipLeaf = (walk: Walk, tag: number): void => {
  if (isWhole(tag)) return;
  const length = textLength(walk, tag);
  if (length !== undefined) return void walk.skip(length);
  const bytes = NUMBER_BYTES[tag - FIRST_NUMBER];
  if (bytes !== undefined) walk.skip(bytes);
  else if (tag >= 0xc4 && tag <= 0xc6) walk.skip(walk.uint(SIZES[tag - 0xc4]!));
  else skipExtension(walk, tag);
};

const isName = (tag: number): boolean => (tag >= 0xa0 && tag <= 0xbf) || (tag >= 0xd9 && tag <= 0xdb);
const isNumber = (tag: number): boolean => tag <= 0x7f || tag >= 0xe0 || (tag >= 0xcc && tag <= 0xd3);

/** An array or a map that is being read: how many of its entries are left. */
type Open = { left: number; isMap: boolean };

/** Every other entry of a map must be a field name; objects, such as records, are refused as names. */
const checkKey = (walk: Walk, open: Open | undefined, tag: number): void => {
  if (!open?.isMap || open.left % 2 !== 0) return;
  if (walk.records?.has(tag) || (!isName(tag) && !isNumber(tag))) refuse();
};

/**
 * Skips one MessagePack value with everything in it. Every length is checked against the remaining bytes
 * before anything is allocated, so that no frame makes the decoder reserve or call more than it has bytes.
 */
const skipValue = (walk: Walk): void => {
  const stack: Open[] = [];
  do {
    const open = stack.at(-1);
    const tag = walk.uint(1);
    checkKey(walk, open, tag);
    if (open) open.left--;
    const fields = fieldsOf(walk, tag);
    const left = fields ?? itemsOf(walk, tag) ?? valuesOf(walk, tag);
    if (left === undefined) skipLeaf(walk, tag);
    else {
      if (left > walk.bytes.length - walk.at || stack.length >= DEPTH_MAX) refuse();
      stack.push({ left, isMap: fields !== undefined });
    }
    while (stack.at(-1)?.left === 0) stack.pop();
  } while (stack.length > 0);
};

const skipName = (walk: Walk): void => {
  const length = textLength(walk, walk.uint(1));
  if (length === undefined || length > MESSAGE_NAME_MAX_BYTES) return refuse();
  const from = walk.skip(length);
  // For invalid text, core's decoder writes to the console and continues.
  for (let i = from; i < walk.at; i++) if (walk.bytes[i]! > 0x7e || walk.bytes[i]! < 0x20) refuse();
};

/** Skips a name and, unless the frame ends there, one value. */
const skipMessage = (walk: Walk): void => {
  skipName(walk);
  if (!walk.isOver) skipValue(walk);
  if (!walk.isOver) refuse();
};

/** Skips the id by which a request is answered: up to 32 bits, as the SDK counts. */
const skipRequestId = (walk: Walk): void => {
  const tag = walk.uint(1);
  if (tag <= 0x7f) return;
  if (tag < 0xcc || tag > 0xce) refuse();
  walk.skip(SIZES[tag - 0xcc]!);
};

/** Readers by message code. Rooms handle no other code. */
const READERS: Readonly<Record<number, (walk: Walk) => void>> = {
  [Protocol.JOIN_ROOM]: () => undefined,
  [Protocol.LEAVE_ROOM]: () => undefined,
  [Protocol.PING]: () => undefined,
  [Protocol.ROOM_DATA]: skipMessage,
  [Protocol.ROOM_REQUEST]: (walk) => {
    skipRequestId(walk);
    skipMessage(walk);
  },
};

/**
 * Whether a room can read a client's message: one of the five codes that rooms accept, with a valid name, and
 * with MessagePack that ends where the frame does. For any other, core's own reader would throw, write a
 * stack to the log or a line to the console, or put the client's data into a close reason.
 */
export const isReadable = (message: Buffer, isBinary: boolean): boolean => {
  const code = message[0];
  if (!isBinary || code === undefined || code > CODE_MAX) return false;
  const read = READERS[code];
  if (!read) return false;
  try {
    read(new Walk(message, 1));
    return true;
  } catch (error) {
    if (error instanceof Unreadable) return false;
    throw error;
  }
};

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
