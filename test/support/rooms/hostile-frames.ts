import { Packr } from "msgpackr";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { HOSTILE_VALUES } from "../http/hostile.ts";
import type { Random } from "../seed.ts";

/** First bytes of the messages that rooms take; see the protocol of Colyseus. */
export const CODE = { join: 10, leave: 12, data: 13, bytes: 17, ping: 18, request: 21 } as const;
const SIZE_MAX = 16 * 1024;

/** As the SDK packs, and as other clients do. */
const packers = [new Packr(), new Packr({ useRecords: false }), new Packr({ bundleStrings: true })];

const stringHead = (length: number): Buffer =>
  length < 32 ? Buffer.of(0xa0 | length) : Buffer.of(0xda, length & 0xff, length >> 8);

/** The head of a message: its code, for a request its number, and its name. */
export const head = (code: number, name: string | Buffer): Buffer => {
  const bytes = Buffer.from(name);
  const number = code === CODE.request ? [7] : [];
  return Buffer.concat([Buffer.of(code, ...number), stringHead(bytes.length), bytes]);
};

/** What the text of a message may do to whoever reads it: filters, mentions, emoji, expressions. */
const TEXTS: readonly string[] = [
  "a".repeat(15_000),
  "@".repeat(15_000),
  "@a ".repeat(5_000),
  "👩‍👩‍👧‍👦".repeat(600),
  "Z̸̢͗".repeat(1_500),
  "f.u.c.k ".repeat(1_800),
  " ".repeat(15_000),
  "(".repeat(15_000),
  "\u202e\u200d".repeat(2_500),
  "http://".repeat(2_000),
  "1\u20e3".repeat(3_500),
  "\u0301".repeat(7_000),
  "ﷺ".repeat(5_000),
];

const FIELDS = [
  "content",
  "seq",
  "emoji",
  "payload",
  "data",
  "mentions",
  "to",
  "lastSeq",
  "token",
  "ready",
  "reason",
];

/** Values that a JSON reader is glad of and a room should not be. */
const value = (random: Random): unknown => {
  if (random.chance(0.03)) return random.pick(TEXTS).slice(0, random.between(0, 15_000));
  const text = random.pick(HOSTILE_VALUES);
  return text.length < 1_000 ? (JSON.parse(text) as unknown) : text.slice(0, 1_000);
};

const body = (random: Random): unknown => {
  if (random.chance(0.2)) return value(random);
  const fields = Array.from({ length: random.between(1, 4) }, () => [random.pick(FIELDS), value(random)]);
  return Object.fromEntries(fields) as object;
};

const packed = (random: Random): Buffer => Buffer.from(random.pick(packers).pack(body(random)));

const noise = (random: Random, length: number): Buffer =>
  Buffer.from(Array.from({ length }, () => random.between(0, 255)));

const u32 = (tag: number, length: number): Buffer => {
  const bytes = Buffer.alloc(5, tag);
  bytes.writeUInt32BE(length, 1);
  return bytes;
};

/** MessagePack that promises more than it has, or has more than it should. */
const BOMBS: readonly ((random: Random) => Buffer)[] = [
  () => Buffer.alloc(SIZE_MAX - 100, 0x91),
  () => Buffer.alloc(SIZE_MAX - 100, 0x81),
  ({ between }) => u32([0xdd, 0xdf, 0xdb, 0xc6, 0xc9][between(0, 4)]!, 0xffffffff),
  ({ between }) => Buffer.concat([u32(0xdd, 16_000), Buffer.alloc(16_000, between(0, 255))]),
  ({ between }) => Buffer.concat([u32(0xdf, 8_000), Buffer.alloc(16_000, between(0, 255))]),
  (random) =>
    Buffer.concat([Buffer.of(0xc7, random.between(0, 255), random.between(0, 255)), noise(random, 40)]),
  (random) => Buffer.concat([Buffer.of(random.between(0xc0, 0xdf)), noise(random, random.between(0, 40))]),
  // A regular expression, an error, a pointer, a set, bundled texts, records without end.
  () => Buffer.concat([Buffer.of(0xd4, 0x78, 0, 0x92, 0xa6), Buffer.from("(a+)+$"), Buffer.of(0xa0)]),
  () => Buffer.of(0xd4, 0x65, 0, 0x93, 0xa5, 0x45, 0x72, 0x72, 0x6f, 0x72, 0xa1, 0x78, 0xc0),
  () => Buffer.of(0xd6, 0x70, 0, 0, 0, 1),
  () => Buffer.of(0xd4, 0x73, 0, 0x91, 1),
  () => Buffer.of(0xd6, 0x62, 0x7f, 0xff, 0xff, 0xff),
  () => Buffer.concat([u32(0xdd, 15_000), Buffer.of(0xd4, 0x72, 0x40, 0x90), Buffer.alloc(14_999, 0x40)]),
  () =>
    Buffer.concat([
      u32(0xdd, 5_400),
      ...Array(900).fill(Buffer.from("d4724091a1610140014001400140014001", "hex")),
    ]),
];

const NAMES: readonly (string | Buffer)[] = [
  "",
  "*",
  "x".repeat(100),
  "x".repeat(15_000),
  "__proto__",
  "constructor",
  "toString",
  "_$bx",
  "\u0000",
  "é".repeat(40),
  Buffer.from([0xff, 0xfe, 0x80]),
  Buffer.from([0xed, 0xa0, 0x80]),
  Buffer.from([0xf0, 0x9f]),
];

const mutate = (frame: Buffer, random: Random): Buffer => {
  const bytes = Buffer.from(frame);
  const at = random.between(0, Math.max(0, bytes.length - 1));
  switch (random.between(0, 3)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([bytes, noise(random, random.between(1, 8))]);
    case 2:
      return Buffer.concat([bytes.subarray(0, at), noise(random, random.between(1, 4)), bytes.subarray(at)]);
    default:
      if (bytes.length > 0) bytes[at] = random.between(0, 255);
      return bytes;
  }
};

const named = (random: Random, names: readonly string[]): Buffer => {
  const code = random.chance(0.6) ? CODE.request : random.pick([CODE.data, CODE.bytes]);
  return head(code, random.chance(0.8) ? random.pick(names) : random.pick(NAMES));
};

/**
 * A message as no SDK would send it, or nearly as one would: of every code, with a name that the room knows
 * or not, and with a body that is hostile, broken or absent. At most 16 KiB.
 */
export const hostileFrame = (random: Random, names: readonly string[]): Buffer => {
  const kind = random.next();
  if (kind < 0.08)
    return Buffer.concat([Buffer.of(random.between(0, 255)), noise(random, random.between(0, 30))]);
  if (kind < 0.12) return noise(random, random.between(0, 200));
  if (kind < 0.2) return named(random, names);
  const rest = kind < 0.3 ? random.pick(BOMBS)(random) : packed(random);
  const frame = Buffer.concat([named(random, names), rest]).subarray(0, SIZE_MAX);
  return random.chance(0.35) ? mutate(frame, random) : frame;
};

/** What the first byte of a frame says. */
export const OPCODE = { CONTINUATION: 0, TEXT: 1, BINARY: 2, PING: 9, PONG: 10 } as const;

/** A client's frame; the mask of zeros leaves the payload as it is. */
export const frame = (opcode: number, payload: Buffer | string = "", isLast = true): Buffer => {
  const data = Buffer.from(payload);
  const first = (isLast ? 0x80 : 0) | opcode;
  const [short, middle] = [data.length < 126, data.length < 65_536];
  const header = Buffer.alloc(short ? 2 : middle ? 4 : 10);
  header[0] = first;
  header[1] = 0x80 | (short ? data.length : middle ? 126 : 127);
  if (!short) {
    if (middle) header.writeUInt16BE(data.length, 2);
    else header.writeBigUInt64BE(BigInt(data.length), 2);
  }
  return Buffer.concat([header, Buffer.alloc(4), data]);
};

/** A socket that speaks WebSocket no better than it is told to. */
export type RawClient = {
  socket: Socket;
  write(data: Buffer): void;
  /** True once the server has ended it; a client that does not read cannot see that. */
  isClosed(): boolean;
};

const JOIN_ROOM = 10;

/** Takes a seat by hand at the process of `port`, and acknowledges the join. */
export const takeSeat = async (
  port: number,
  { processId, roomId, sessionId }: { processId: string; roomId: string; sessionId: string },
): Promise<RawClient> => {
  const socket = connect(port, "127.0.0.1");
  let closed = false;
  socket.on("error", () => undefined);
  socket.on("close", () => {
    closed = true;
  });
  await once(socket, "connect");
  const lines = [
    `GET /${processId}/${roomId}?sessionId=${sessionId} HTTP/1.1`,
    "Host: localhost",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}`,
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  const [answer] = (await once(socket, "data")) as [Buffer];
  if (!answer.toString("latin1").startsWith("HTTP/1.1 101 ")) throw new Error(answer.toString("latin1"));
  const client: RawClient = {
    socket,
    write: (data) => {
      if (!socket.destroyed) socket.write(data);
    },
    isClosed: () => closed,
  };
  client.write(frame(OPCODE.BINARY, Buffer.from([JOIN_ROOM])));
  return client;
};
