import { Protocol } from "@colyseus/core";

/** Maximum length of a message name; the rooms' own are shorter than half of it. */
export const MESSAGE_NAME_MAX_BYTES = 64;
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
