import { promisify } from "node:util";
import { constants, gzip, gunzip } from "node:zlib";
import type { Response } from "express";
import { DomainError } from "../domain/kernel/errors.ts";
import { etagOf, type ReadyJson } from "../domain/kernel/ready-json.ts";

/** Shorter bodies fill one packet either way. */
const COMPRESSED_MIN_BYTES = 1_024;
/** Most of the gain for a fraction of the time: responses are compressed while their clients wait. */
const FAST = { level: constants.Z_BEST_SPEED };

const compress = promisify(gzip);
const inflate = promisify(gunzip);

const sizeOf = (chunks: readonly Buffer[]): number => chunks.reduce((sum, { length }) => sum + length, 0);

/** Whether the client may be sent gzip; notes that the response depends on it. */
export const takesGzip = (response: Response): boolean => {
  response.vary("Accept-Encoding");
  return response.req.acceptsEncodings("gzip", "identity") === "gzip";
};

/** Sends bytes with their length; the headers alone for HEAD. */
const write = (response: Response, chunks: readonly Buffer[]): void => {
  response.set("Content-Length", String(sizeOf(chunks)));
  if (response.req.method !== "HEAD") for (const chunk of chunks) response.write(chunk);
  response.end();
};

const opaqueOf = (tag: string): string => tag.trim().replace(/^W\//, "");

/** Whether If-None-Match names the tag, compared weakly (RFC 9110, 13.1.2). */
const namesTag = (header: string | undefined, etag: string): boolean =>
  header !== undefined &&
  (header.trim() === "*" || header.split(",").some((tag) => opaqueOf(tag) === opaqueOf(etag)));

/**
 * Answers 304 if the client has this version of the body. `Cache-Control: no-cache`, which `fetch` sends with
 * If-None-Match, is for caches on the way: the server itself has compared. @returns whether it does
 */
const isKnown = (response: Response, etag: string): boolean => {
  response.set("ETag", etag);
  const { method, headers } = response.req;
  if ((method !== "GET" && method !== "HEAD") || !namesTag(headers["if-none-match"], etag)) return false;
  response.status(304).end();
  return true;
};

/**
 * Sends JSON, compressed if it is long and the client takes gzip. With `isRevalidated` a client may keep it
 * and ask by its ETag whether it has changed.
 */
export const sendJson = async (
  response: Response,
  chunks: readonly Buffer[],
  isRevalidated: boolean,
): Promise<void> => {
  response.type("json");
  const isLong = sizeOf(chunks) >= COMPRESSED_MIN_BYTES;
  const isPacked = isLong && takesGzip(response);
  if (isRevalidated) {
    // Of these credentials alone, and never used without asking.
    response.set("Cache-Control", "private, no-cache");
    if (isKnown(response, etagOf(chunks))) return;
  }
  if (!isPacked) return write(response, chunks);
  const packed = await compress(Buffer.concat(chunks), FAST);
  response.set("Content-Encoding", "gzip");
  write(response, [packed]);
};

/**
 * Sends ready bytes as `sendJson` does with `isRevalidated`: compressed once for all who take gzip.
 */
export const sendReady = async (response: Response, ready: ReadyJson): Promise<void> => {
  const { plain, etag } = ready;
  response.type("json");
  const isPacked = plain.length >= COMPRESSED_MIN_BYTES && takesGzip(response);
  response.set("Cache-Control", "private, no-cache");
  if (isKnown(response, etag)) return;
  if (!isPacked) return write(response, [plain]);
  ready.packed ??= compress(plain, FAST);
  const packed = await ready.packed;
  response.set("Content-Encoding", "gzip");
  write(response, [packed]);
};

/** A body that is the same for as long as the process lives. */
export type FixedBody = { plain: Buffer; packed: Buffer; etag: string };

export const fixedBody = async (plain: Buffer): Promise<FixedBody> => ({
  plain,
  packed: await compress(plain),
  etag: etagOf([plain]),
});

/** Sends a fixed body; the caller has set its type. */
export const sendFixed = (response: Response, { plain, packed, etag }: FixedBody): void => {
  const isPacked = takesGzip(response);
  if (isKnown(response, etag)) return;
  response.locals["isFixed"] = true;
  if (isPacked) response.set("Content-Encoding", "gzip");
  write(response, [isPacked ? packed : plain]);
};

const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && "code" in error && error.code === code;

/**
 * Inflates the gzip of a request's body, outside the event loop and no further than `limit` bytes.
 * @throws DomainError PAYLOAD_TOO_LARGE beyond them, VALIDATION_ERROR MALFORMED_GZIP
 */
export const inflated = async (packed: Buffer, limit: number): Promise<Buffer> => {
  try {
    return await inflate(packed, { maxOutputLength: limit });
  } catch (error) {
    if (hasCode(error, "ERR_BUFFER_TOO_LARGE"))
      throw new DomainError("PAYLOAD_TOO_LARGE", `The body may have at most ${limit} bytes when inflated`);
    throw new DomainError("VALIDATION_ERROR", "The body is not valid gzip", { reason: "MALFORMED_GZIP" });
  }
};
