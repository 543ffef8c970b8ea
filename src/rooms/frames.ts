import { type Client, ClientState, getMessageBytes, Protocol } from "@colyseus/core";
import { WebSocket } from "ws";
import { CLOSE } from "./messages.ts";
import { Rate } from "./pace.ts";

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

type SendOptions = Parameters<WebSocket["send"]>[1];
type Done = (error?: Error) => void;
/** The part of ws that writes a finished frame; in state 0 its queue is empty. */
type Writer = { _state: number; sendFrame(list: readonly Buffer[], done?: Done): void };

/** A final frame of binary data. */
const FIN_BINARY = 0x82;
/** A ping without data. */
const PING = Buffer.from([0x89, 0]);
/** Lengths from these values on take 2 and 8 additional bytes. */
const LENGTH_16_BITS = 126;
const LENGTH_64_BITS = 65_536;

/** Builds the frame of a server's binary message (RFC 6455, 5.2). */
export const binaryFrame = (data: Uint8Array): Buffer => {
  const { length } = data;
  const extra = length < LENGTH_16_BITS ? 0 : length < LENGTH_64_BITS ? 2 : 8;
  const frame = Buffer.allocUnsafe(2 + extra + length);
  frame[0] = FIN_BINARY;
  if (extra === 0) frame[1] = length;
  else if (extra === 2) {
    frame[1] = 126;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = 127;
    frame.writeBigUInt64BE(BigInt(length), 2);
  }
  frame.set(data, 2 + extra);
  return frame;
};

/** Maximum bytes of a close frame's reason (RFC 6455, 5.5). */
const REASON_MAX_BYTES = 123;

/** Truncates a reason to what a close frame can carry; a character is never cut in two. */
const closeReason = (reason: string): string => {
  const bytes = Buffer.from(reason.slice(0, REASON_MAX_BYTES));
  if (bytes.length <= REASON_MAX_BYTES) return bytes.toString();
  return new TextDecoder().decode(bytes.subarray(0, REASON_MAX_BYTES), { stream: true });
};

/** Codes that describe how a connection was lost; they must not be sent. */
const UNSENDABLE: ReadonlySet<number> = new Set([1004, 1005, 1006]);

const isSendable = (code: number): boolean =>
  (code >= 1000 && code <= 1014 && !UNSENDABLE.has(code)) || (code >= 3000 && code <= 4999);

/** Control frames that a client may send per second; a socket that exceeds this is flooding and is closed. */
const controls = new Rate(20, 1_000);

/** Callbacks of a socket's owner. */
export type SocketWatch = {
  /** Whether listeners can handle a message; otherwise the socket is closed. */
  isReadable(message: Buffer, isBinary: boolean): boolean;
  /** Called when a listener of `event` has thrown and the socket was terminated. */
  onThrow(error: unknown, event: string): void;
};

/** The message that is being sent to one socket after another, with its frame. */
let shared: { data: Uint8Array; frame: Buffer } | undefined;

/**
 * A frame is valid only while nobody can have changed the message: until the current event-loop task ends.
 */
const frameOf = (data: Uint8Array): Buffer => {
  if (shared?.data === data) return shared.frame;
  if (!shared) queueMicrotask(() => (shared = undefined));
  const frame = binaryFrame(data);
  shared = { data, frame };
  return frame;
};

/**
 * Server socket that frames a broadcast message once and writes it in one piece; ws itself builds a header
 * for each send and writes header and message separately. In a bare loop over 1,000 sockets a send took 9.4
 * us of CPU instead of 11.4 with 83 bytes, and 7.2 instead of 10.4 with 630; most of the rest is spent in the
 * kernel.
 */
export class FramedSocket extends WebSocket {
  /** Computed once when the socket is open; ws builds a string for it each time. */
  #isCompressed: boolean | undefined;
  watch: SocketWatch | undefined;

  /**
   * Last safeguard around everything that a frame triggers: an exception of a listener terminates this
   * socket, not the process. A closing socket delivers no more messages, however many have already arrived.
   */
  override emit(event: string | symbol, ...values: unknown[]): boolean {
    try {
      return this.#isDeliverable(event, values) ? super.emit(event, ...values) : true;
    } catch (error) {
      this.terminate();
      this.watch?.onThrow(error, String(event));
      return true;
    }
  }

  /** Closes with a code and a reason that fit into a frame, whatever is given; ws would throw. */
  override close(code?: number, reason?: string | Buffer): void {
    if (code === undefined) return super.close();
    super.close(isSendable(code) ? code : CLOSE.ERROR, closeReason(String(reason ?? "")));
  }

  override send(data: unknown, options?: unknown, done?: unknown): void {
    const writer = data instanceof Uint8Array && typeof options === "object" ? this.#writer() : undefined;
    if (writer) writer.sendFrame([frameOf(data as Uint8Array)], done as Done | undefined);
    else super.send(data as Uint8Array, options as SendOptions, done as Done);
  }

  /** Writes finished frames; returns false when each message must be sent by itself. */
  sendFrames(frames: Buffer): boolean {
    const writer = this.#writer();
    writer?.sendFrame([frames]);
    return writer !== undefined;
  }

  override ping(...args: unknown[]): void {
    const [done] = args;
    const writer = args.length === 1 && typeof done === "function" ? this.#writer() : undefined;
    if (writer) writer.sendFrame([PING], done as Done);
    else super.ping(...(args as Parameters<WebSocket["ping"]>));
  }

  #isDeliverable(event: string | symbol, values: unknown[]): boolean {
    if (event === "ping" || event === "pong") return this.#isWithinControlRate();
    if (event !== "message" || !this.watch) return true;
    if (this.readyState !== WebSocket.OPEN) return false;
    const [message, isBinary] = values as [Buffer, boolean];
    const isAccepted = this.watch.isReadable(message, isBinary);
    if (!isAccepted) this.close(CLOSE.ERROR, "invalid message");
    return isAccepted;
  }

  /** Limits control frames, which cost as much as messages but are not counted by core. */
  #isWithinControlRate(): boolean {
    if (controls.take(this, performance.now())) return true;
    this.close(CLOSE.ERROR, "too many control frames");
    return false;
  }

  /** Undefined when the socket is not open, compresses, or has pending writes: ws handles those cases. */
  #writer(): Writer | undefined {
    if (this.readyState !== WebSocket.OPEN) return undefined;
    this.#isCompressed ??= this.extensions !== "";
    const writer = (this as unknown as { _sender?: Writer })._sender;
    return !this.#isCompressed && writer?._state === 0 ? writer : undefined;
  }
}

/** Minimum and maximum milliseconds between two writes to a crowd during a burst of messages. */
const FLUSH_EVERY_MS = 15;
const FLUSH_PAUSE_MAX_MS = 100;
/** The pause after a write, as a multiple of its duration: writes of one room take a fifth of a process. */
const PAUSE_FOR_WRITE = 4;
/** Maximum number of bytes that wait for the next write. */
export const FLUSH_BYTES = 64 * 1_024;

type FanOutParts = {
  /** The recipients. */
  clients(): Iterable<Client>;
  later(delayMs: number, run: () => void): void;
};

/**
 * Broadcasts to all clients of a room: each message is encoded and framed once, and each socket gets all
 * pending messages in one write. Writes are most of the cost of a broadcast, so during a burst later messages
 * wait a moment for the next write.
 */
export class FanOut {
  readonly #parts: FanOutParts;
  #messages: Buffer[] = [];
  #bytes = 0;
  #flushNextAtMs = -Infinity;
  #isWaiting = false;

  constructor(parts: FanOutParts) {
    this.#parts = parts;
  }

  /** Queues a message until the next `flush`. */
  add(name: string, message: unknown): void {
    const bytes = getMessageBytes.raw(Protocol.ROOM_DATA, name, message);
    this.#messages.push(bytes);
    this.#bytes += bytes.length;
  }

  /** Flushes at once, or as soon as the minimum interval since the last flush has passed. */
  soon(): void {
    if (this.#messages.length === 0) return;
    const leftMs = this.#flushNextAtMs - performance.now();
    if (leftMs <= 0 || this.#bytes > FLUSH_BYTES) return this.flush();
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#parts.later(leftMs, () => {
      this.#isWaiting = false;
      this.flush();
    });
  }

  /** Sends the queued messages in order, as a broadcast would. */
  flush(): void {
    if (this.#messages.length === 0) return;
    const messages = this.#messages;
    const startMs = performance.now();
    [this.#messages, this.#bytes] = [[], 0];
    const frames = Buffer.concat(messages.map(binaryFrame));
    for (const client of this.#parts.clients()) {
      const { ref, state } = client as Client & { ref: unknown };
      const isSent = state === ClientState.JOINED && ref instanceof FramedSocket && ref.sendFrames(frames);
      // Clients that have not joined yet, or have left, are handled by core.
      if (!isSent) for (const message of messages) client.enqueueRaw(message);
    }
    const endMs = performance.now();
    const pauseMs = Math.min(FLUSH_PAUSE_MAX_MS, PAUSE_FOR_WRITE * (endMs - startMs));
    this.#flushNextAtMs = Math.max(startMs + FLUSH_EVERY_MS, endMs + pauseMs);
  }
}
