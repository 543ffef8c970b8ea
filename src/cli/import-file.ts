import { createHash } from "node:crypto";
import { isUtf8 } from "node:buffer";
import { createReadStream } from "node:fs";
import { addAbortSignal, pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";

/**
 * Maximum bytes of a line; longer ones are rejected without being kept in memory. An event is far smaller.
 */
export const LINE_MAX_BYTES = 1024 * 1024;

/** Size of one read; small, since compressed events are, and progress is measured in bytes. */
const READ_BYTES = 16 * 1024;
const NOTHING = Buffer.alloc(0);

/** One line of the file, numbered from 1, without its line break. A line that is too long is truncated. */
export type Line = { number: number; bytes: Buffer; isTooLong: boolean };

/** An event to send, or a line rejected locally with a reason. */
export type Item = {
  line: number;
  text: string;
  /** Of the whole line, which its text keeps in memory. */
  bytes: number;
  userId?: string;
  /** Whether the event has an idempotency key of its own. */
  hasKey: boolean;
  reason?: string;
};

/**
 * Opens a file, or standard input for "-". gzip is recognised by its first bytes, whatever the name.
 * @param onBytes receives the number of bytes read, before decompression
 */
export const openLines = (
  file: string,
  signal: AbortSignal,
  onBytes: (read: number) => void,
): AsyncGenerator<Line[]> => {
  const source = file === "-" ? process.stdin : createReadStream(file, { highWaterMark: READ_BYTES });
  return splitLines(unzipped(counted(addAbortSignal(signal, source), onBytes)));
};

async function* counted(source: Readable, onBytes: (read: number) => void): AsyncGenerator<Buffer> {
  let read = 0;
  for await (const chunk of source) {
    onBytes((read += (chunk as Buffer).length));
    yield chunk as Buffer;
  }
}

async function* unzipped(chunks: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  let head: Buffer = NOTHING;
  for (let next = await chunks.next(); !next.done; next = await chunks.next()) {
    head = Buffer.concat([head, next.value]);
    if (head.length >= 2) break;
  }
  async function* all(): AsyncGenerator<Buffer> {
    if (head.length > 0) yield head;
    yield* chunks;
  }
  const isGzip = head[0] === 0x1f && head[1] === 0x8b;
  // Errors of both stages surface in the last one, which is read here.
  yield* isGzip
    ? (pipeline(
        Readable.from(all(), { objectMode: false }),
        createGunzip(),
        () => {},
      ) as AsyncIterable<Buffer>)
    : all();
}

/**
 * Splits chunks into lines; the last one needs no line break. Memory is bounded by a chunk and
 * LINE_MAX_BYTES.
 */
export async function* splitLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Line[]> {
  let [number, rest, isTooLong]: [number, Buffer, boolean] = [0, NOTHING, false];
  const keep = (piece: Buffer): void => {
    if (isTooLong || piece.length === 0) return;
    const whole = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    isTooLong = whole.length > LINE_MAX_BYTES;
    rest = whole.subarray(0, LINE_MAX_BYTES);
  };
  const take = (): Line => {
    const line = { number: ++number, bytes: trimEnds(rest, number), isTooLong };
    [rest, isTooLong] = [NOTHING, false];
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
    keep(Buffer.from(chunk.subarray(start)));
    if (lines.length > 0) yield lines;
  }
  if (rest.length > 0) yield [take()];
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
  const item = { line: number, text, bytes: bytes.length, hasKey: true };
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

/** Returns an event with a generated key, which comes first; every other byte is unchanged. */
export const withKey = (text: string, key: string): string => {
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
