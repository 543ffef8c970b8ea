import { createHash } from "node:crypto";
import { isUtf8 } from "node:buffer";
import { createReadStream } from "node:fs";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";

/**
 * Maximum bytes of a line; longer ones are rejected without being kept in memory. An event is far smaller.
 */
export const LINE_MAX_BYTES = 1024 * 1024;

/** Size of one read; small, since compressed events are, and progress is measured in bytes. */
const READ_BYTES = 16 * 1024;

/** One line of the file, numbered from 1, without its line break. A line that is too long is truncated. */
export type Line = { number: number; bytes: Buffer; isTooLong: boolean };

/** An event to send, or a line rejected locally with a reason. */
export type Item = {
  line: number;
  text: string;
  /** Its size in a request's body. */
  bytes: number;
  userId?: string;
  /** Whether the event has an idempotency key of its own. */
  hasKey: boolean;
  /** The generated key of an event without one. */
  key?: string;
  reason?: string;
};

type OnBytes = (read: number) => void;

/**
 * Opens a file, or standard input for "-". gzip is recognised by its first bytes, whatever the name.
 * @param onBytes receives the number of bytes read, before decompression
 */
export const openLines = (file: string, signal: AbortSignal, onBytes: OnBytes): AsyncGenerator<Line[]> => {
  const source: Readable =
    file === "-" ? process.stdin : createReadStream(file, { highWaterMark: READ_BYTES });
  return splitLines(unzipped(source, signal, onBytes));
};

async function* unzipped(source: Readable, signal: AbortSignal, onBytes: OnBytes): AsyncGenerator<Buffer> {
  const stop = () => source.destroy(new Error("stopped"));
  signal.addEventListener("abort", stop);
  try {
    const chunks = counted(source, onBytes);
    const head = await readHead(chunks);
    const all = Readable.from(joined(head, chunks), { objectMode: false });
    const isGzip = head[0] === 0x1f && head[1] === 0x8b;
    // Errors of every stage surface in the last one, which is read here.
    const last: Readable = isGzip ? pipeline(all, createGunzip(), () => {}) : all;
    for await (const chunk of last) yield chunk as Buffer;
  } finally {
    signal.removeEventListener("abort", stop);
    source.destroy();
  }
}

async function* counted(source: Readable, onBytes: OnBytes): AsyncGenerator<Buffer> {
  let read = 0;
  for await (const chunk of source) {
    read += (chunk as Buffer).length;
    onBytes(read);
    yield chunk as Buffer;
  }
}

/** Reads at least the first two bytes, if there are as many. */
const readHead = async (chunks: AsyncGenerator<Buffer>): Promise<Buffer> => {
  let head: Buffer = Buffer.alloc(0);
  while (head.length < 2) {
    const next = await chunks.next();
    if (next.done) break;
    head = Buffer.concat([head, next.value]);
  }
  return head;
};

async function* joined(head: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  if (head.length > 0) yield head;
  yield* rest;
}

/**
 * Splits chunks into lines; the last one needs no line break. Memory is bounded by a chunk and
 * LINE_MAX_BYTES.
 */
export async function* splitLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Line[]> {
  let number = 0;
  let carry: Buffer[] = [];
  let carried = 0;
  let isTooLong = false;
  const keep = (piece: Buffer) => {
    const room = LINE_MAX_BYTES - carried;
    if (piece.length > room) isTooLong = true;
    if (room <= 0 || piece.length === 0) return;
    carry.push(piece.subarray(0, room));
    carried += Math.min(piece.length, room);
  };
  const take = (): Line => {
    number += 1;
    const bytes = carry.length === 1 ? carry[0]! : Buffer.concat(carry);
    const line = { number, bytes: trimEnds(bytes, number), isTooLong };
    carry = [];
    carried = 0;
    isTooLong = false;
    return line;
  };
  for await (const chunk of chunks) {
    const lines: Line[] = [];
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, start)) {
      keep(chunk.subarray(start, end));
      lines.push(take());
      start = end + 1;
    }
    if (start < chunk.length) keep(Buffer.from(chunk.subarray(start)));
    if (lines.length > 0) yield lines;
  }
  if (carried > 0) yield [take()];
}

/** Removes a carriage return at the end, and a byte order mark at the start of the file. */
const trimEnds = (bytes: Buffer, number: number): Buffer => {
  const end = bytes.at(-1) === 0x0d ? bytes.length - 1 : bytes.length;
  const hasMark = number === 1 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return bytes.subarray(hasMark ? 3 : 0, end);
};

/**
 * Parses a line as an event, undefined for an empty one. Only what can never be an event is rejected here.
 */
export const readItem = ({ number, bytes, isTooLong }: Line): Item | undefined => {
  const text = bytes.toString("utf8").trim();
  if (text === "") return undefined;
  const item = { line: number, text, bytes: bytes.length + 1, hasKey: true };
  if (isTooLong) return { ...item, reason: `line longer than ${LINE_MAX_BYTES} bytes` };
  if (!isUtf8(bytes)) return { ...item, reason: "not valid UTF-8" };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { ...item, reason: `not valid JSON: ${(error as Error).message.slice(0, 200)}` };
  }
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return { ...item, reason: "not a JSON object" };
  const { externalUserId, idempotencyKey } = value as Record<string, unknown>;
  const hasKey = idempotencyKey !== undefined;
  return typeof externalUserId === "string"
    ? { ...item, hasKey, userId: externalUserId }
    : { ...item, hasKey };
};

/** Returns the event as it is sent: a generated key comes first, every other byte is unchanged. */
export const eventText = ({ text, key }: Item): string => {
  if (key === undefined) return text;
  const rest = text.slice(1).trimStart();
  return `{"idempotencyKey":${JSON.stringify(key)}${rest.startsWith("}") ? "" : ","}${rest}`;
};

/**
 * Computes a running digest of everything read. Two files that are equal up to a line have equal digests
 * there: it identifies a line by its content and position, and reveals a file that changed during an import.
 */
export const createDigest = () => {
  const hash = createHash("sha256");
  return {
    add: ({ bytes }: Line): void => void hash.update(bytes).update("\n"),
    /** 128 bits, hex. */
    current: (): string => hash.copy().digest("hex").slice(0, 32),
  };
};
export type Digest = ReturnType<typeof createDigest>;
