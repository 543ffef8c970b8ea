import type { IncomingMessage } from "node:http";
import type { Request } from "express";
import { DomainError, invalid } from "../domain/kernel/errors.ts";
import {
  BODY_LIMIT,
  BODY_NAMES_MAX,
  BODY_PARTS_MAX,
  LARGE_BODY_PARTS_MAX,
  PUBLIC_BODY_LIMIT,
} from "../domain/kernel/limits.ts";
import { inflatedMax, parsedBytes } from "./request-guards.ts";
import { inflated } from "./compression.ts";
import type { AnyRoute } from "./route.ts";

const QUOTE_BYTE = 0x22;
const BACKSLASH_BYTE = 0x5c;
const COLON_BYTE = 0x3a;
/** Each comma, colon and opening bracket is followed by one more name or value, or by none. */
const BEFORE_PARTS: ReadonlySet<number> = new Set([0x2c, COLON_BYTE, 0x5b, 0x7b]);
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

const tableOf = (bytes: ReadonlySet<number>): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, byte) => Number(bytes.has(byte)));

/** 1 for bytes that precede a name or value: an array look-up is faster than a set. */
const COUNTS = tableOf(BEFORE_PARTS);
/** 1 for bytes with a meaning outside a string. */
const SIGNS = tableOf(new Set([QUOTE_BYTE, ...BEFORE_PARTS, ...CLOSING]));

/** Returns the position of the quote that ends the string begun before `from`. */
const endOfStringBytes = (bytes: Uint8Array, from: number): number => {
  let at = from;
  while (at < bytes.length && bytes[at] !== QUOTE_BYTE) at += bytes[at] === BACKSLASH_BYTE ? 2 : 1;
  return at;
};

/** Size of a JSON text: its number of names and values, and the largest number of names in one object. */
type JsonSize = { parts: number; names: number };

/** Counts the names of the largest object, from the structural characters of a text. */
class NameCount {
  most = 0;
  #names = 0;
  /** Counts of the enclosing objects and lists. */
  readonly #around: number[] = [];

  take(sign: number): void {
    if (sign === COLON_BYTE) this.most = Math.max(this.most, ++this.#names);
    else if (CLOSING.has(sign)) this.#names = this.#around.pop() ?? 0;
    else if (OPENING.has(sign)) {
      this.#around.push(this.#names);
      this.#names = 0;
    }
  }
}

/**
 * Counts the names and values of a JSON text from its bytes, before it is parsed: the cost of parsing and
 * checking depends on them, and not on the bytes. Invalid JSON is counted as if it were valid. An empty list
 * or object counts twice, and a name as often as it occurs.
 * @returns `parts` above `max` as soon as there are more; `names` up to there
 */
export const countParts = (bytes: Uint8Array, max: number): JsonSize => {
  const names = new NameCount();
  let parts = 1;
  for (let at = 0; at < bytes.length && parts <= max; at++) {
    const byte = bytes[at]!;
    if (SIGNS[byte] === 0) continue;
    if (byte === QUOTE_BYTE) {
      at = endOfStringBytes(bytes, at + 1);
      continue;
    }
    parts += COUNTS[byte]!;
    names.take(byte);
  }
  return { parts, names: names.most };
};

const tooLarge = (limit: number): DomainError =>
  new DomainError("PAYLOAD_TOO_LARGE", `The body may have at most ${limit} bytes`);

/** Returns the maximum bytes of an operation's body; inflated, where it comes as gzip. */
export const bodyLimitOf = ({ bodyLimit, access }: AnyRoute): number =>
  bodyLimit ?? (access === "public" ? PUBLIC_BODY_LIMIT : BODY_LIMIT);

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;

const isPacked = ({ headers }: Request): boolean => /^(x-)?gzip$/i.test(headers["content-encoding"] ?? "");

/** Refuses a body in an encoding that the operation does not take. */
const checkEncoding = (request: Request, takesGzip: boolean): void => {
  const encoding = request.headers["content-encoding"] ?? "identity";
  if (/^identity$/i.test(encoding) || (takesGzip && isPacked(request))) return;
  const wanted = takesGzip ? "as it is or with Content-Encoding: gzip" : "without Content-Encoding";
  throw new DomainError("UNSUPPORTED_MEDIA_TYPE", `Send the body ${wanted}`);
};

const checkForm = (request: Request): void => {
  if (!request.is(FORM_TYPE))
    throw new DomainError("UNSUPPORTED_MEDIA_TYPE", `Content-Type must be ${FORM_TYPE}`);
};

const checkJson = (request: Request): void => {
  const charset =
    /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(request.headers["content-type"] ?? "")?.[1] ?? "utf-8";
  if (!request.is("application/json") || !/^utf-?8$/i.test(charset)) {
    throw new DomainError("UNSUPPORTED_MEDIA_TYPE", "Content-Type must be application/json in UTF-8");
  }
};

/** @throws DomainError PAYLOAD_TOO_LARGE or UNSUPPORTED_MEDIA_TYPE, based on the headers alone */
export const checkBodyHeaders = (request: Request, route: AnyRoute): void => {
  if (!hasBody(request)) return;
  checkEncoding(request, route.takesGzip === true);
  const limit = bodyLimitOf(route);
  if (Number(request.headers["content-length"] ?? 0) > limit) throw tooLarge(limit);
  if (route.takesForm) checkForm(request);
  else checkJson(request);
};

const aborted = (): DomainError =>
  new DomainError("VALIDATION_ERROR", "The body ended too early", { reason: "MALFORMED" });

/** A body that is being received: the first `bytes` of `buffer` have come, in so many chunks. */
type Arriving = { buffer: Buffer; bytes: number; chunks: number };

/** Chunks that a body of any size may have, and bytes for each one more: a chunk takes CPU of its own. */
const CHUNKS_FREE = 500;
export const CHUNK_MIN_BYTES = 64;

const tooManyChunks = (): DomainError =>
  new DomainError("PAYLOAD_TOO_LARGE", `Send the body in chunks of at least ${CHUNK_MIN_BYTES} bytes`, {
    reason: "CHUNKS_TOO_SMALL",
  });

/**
 * Adds a chunk to what has come. A body of many chunks grows in one buffer, since a million chunks of a byte
 * would take far more memory than their bytes.
 */
const append = (arriving: Arriving, chunk: Buffer, limit: number, hold: Hold): void => {
  const { buffer, bytes } = arriving;
  const upTo = bytes + chunk.length;
  arriving.chunks += 1;
  if (upTo > limit) throw tooLarge(limit);
  if (arriving.chunks > CHUNKS_FREE + upTo / CHUNK_MIN_BYTES) throw tooManyChunks();
  if (upTo > buffer.length) {
    const size = bytes === 0 ? upTo : Math.max(upTo, Math.min(limit, 2 * buffer.length));
    hold(size);
    arriving.buffer = bytes === 0 ? chunk : Buffer.concat([buffer], size);
  }
  if (bytes > 0) chunk.copy(arriving.buffer, bytes);
  arriving.bytes = upTo;
};

/** What came of a body that is refused is let go at once, and the rest is read and not kept. */
const readBytes = async (request: Request, limit: number, hold: Hold): Promise<Buffer> => {
  if (request.destroyed) throw aborted();
  const arriving: Arriving = { buffer: Buffer.alloc(0), bytes: 0, chunks: 0 };
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onData = (chunk: Buffer): void => {
    try {
      append(arriving, chunk, limit, hold);
    } catch (error) {
      reject(error);
    }
  };
  const onCut = (): void => {
    if (!request.readableEnded) reject(aborted());
  };
  request.on("data", onData).once("end", resolve).once("error", onCut).once("close", onCut);
  try {
    await promise;
    return arriving.buffer.subarray(0, arriving.bytes);
  } finally {
    request.off("data", onData).off("end", resolve).off("error", onCut).off("close", onCut).resume();
  }
};

/** Bounds of a body: bytes, and names and values in its JSON. */
type BodyLimits = { bytes: number; parts?: number | undefined };

/** @returns how many names and values the JSON holds @throws DomainError PAYLOAD_TOO_LARGE */
const checkParts = (bytes: Uint8Array, max: number): number => {
  const { parts, names } = countParts(bytes, max);
  if (parts > max)
    throw new DomainError("PAYLOAD_TOO_LARGE", `The body may hold at most ${max} names and values`);
  if (names > BODY_NAMES_MAX)
    throw new DomainError(
      "PAYLOAD_TOO_LARGE",
      `An object of the body may have at most ${BODY_NAMES_MAX} names`,
    );
  return parts;
};

/** Called with the bytes that a body takes in memory, or is about to take; throws where they are too many. */
type Hold = (bytes: number) => void;

/**
 * Receives the bytes of a request's body into `request.body`, as they are sent.
 * @param hold called with the bytes that have come
 * @returns how many there are @throws DomainError PAYLOAD_TOO_LARGE past `limit` (chunked bodies included),
 * VALIDATION_ERROR MALFORMED if it is cut off; what `hold` throws
 */
export const receiveBody = async (request: Request, limit: number, hold: Hold): Promise<number> => {
  if (!hasBody(request)) return 0;
  const bytes = await readBytes(request, limit, hold);
  request.body = bytes;
  return bytes.length;
};

/**
 * Parses the JSON of a received body; `{}` when there is none.
 * @throws DomainError PAYLOAD_TOO_LARGE past `limits` (inflated bodies included), VALIDATION_ERROR
 * MALFORMED_JSON, MALFORMED_GZIP; what `hold` throws
 */
export const readJson = async (
  request: Request,
  { bytes: limit, parts }: BodyLimits,
  hold: Hold,
): Promise<unknown> => {
  const bytes = await inflatedBody(request, limit, hold);
  if (bytes === undefined || bytes.length === 0) return {};
  const partsMax = parts ?? (limit > BODY_LIMIT ? LARGE_BODY_PARTS_MAX : BODY_PARTS_MAX);
  hold(parsedBytes({ bytes: bytes.length, parts: checkParts(bytes, partsMax) }));
  return parse(bytes);
};

/** Inflates a received body where it is packed, also into `request.body`. */
const inflatedBody = async (request: Request, limit: number, hold: Hold): Promise<Buffer | undefined> => {
  const bytes: unknown = request.body;
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) return undefined;
  if (!isPacked(request)) return bytes;
  hold(inflatedMax(bytes.length, limit));
  const whole = await inflated(bytes, limit);
  request.body = whole;
  return whole;
};

/** The media type of forms. */
export const FORM_TYPE = "application/x-www-form-urlencoded";
const FORM_FIELDS_MAX = 20;

/** Whether a character is there as often as `max` or more. */
const hasMore = (bytes: Buffer, character: string, max: number): boolean => {
  let at = -1;
  for (let count = 0; count < max; count++) {
    at = bytes.indexOf(character, at + 1);
    if (at === -1) return false;
  }
  return true;
};

/** Parses the form of a received body; `{}` when there is none. @throws DomainError VALIDATION_ERROR */
export const readForm = (request: Request): Record<string, string> => {
  const bytes: unknown = request.body;
  const body = Buffer.isBuffer(bytes) ? bytes : Buffer.alloc(0);
  // Counted before they are made: hundreds of thousands fit into a body.
  if (hasMore(body, "&", FORM_FIELDS_MAX))
    throw invalid("body", `may have at most ${FORM_FIELDS_MAX} fields`);
  const fields = [...new URLSearchParams(body.toString())];
  const form: Record<string, string> = Object.create(null);
  for (const [name, value] of fields) {
    if (name in form) throw invalid(name, "must be given once");
    form[name] = value;
  }
  return { ...form };
};

const utf8 = new TextDecoder("utf-8", { fatal: true });

const parse = (bytes: Buffer): unknown => {
  try {
    return JSON.parse(utf8.decode(bytes));
  } catch {
    // The parser's message quotes the body, which may contain a secret.
    throw new DomainError("VALIDATION_ERROR", "The body is not valid JSON in UTF-8", {
      reason: "MALFORMED_JSON",
    });
  }
};
