import { once } from "node:events";
import type { Writable } from "node:stream";
import { promisify } from "node:util";
import { constants, createGzip, gunzip, gzip } from "node:zlib";
import type { Response } from "express";
import { codeOf, DomainError } from "../domain/kernel/errors.ts";
import { etagOf, type ReadyJson } from "../domain/kernel/caches.ts";
import { ClientGone } from "../domain/kernel/flights.ts";
import { STREAM, withTimeouts } from "../domain/kernel/timeouts.ts";
import { errorBody } from "./validate.ts";

/** Shorter bodies fill one packet either way. */
const COMPRESSED_MIN_BYTES = 1_024;
/** Most of the gain for a fraction of the time: responses are compressed while their clients wait. */
const FAST = { level: constants.Z_BEST_SPEED };

const compress = promisify(gzip);
const inflate = promisify(gunzip);

/** Whether the client may be sent gzip; notes that the response depends on it. */
const takesGzip = (response: Response): boolean => {
  response.vary("Accept-Encoding");
  return response.req.acceptsEncodings("gzip", "identity") === "gzip";
};

/** Sends bytes with their length; the headers alone for HEAD. */
const write = (response: Response, bytes: Buffer): void => {
  response.set("Content-Length", String(bytes.length));
  response.end(response.req.method === "HEAD" ? undefined : bytes);
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
export const sendJson = async (response: Response, bytes: Buffer, isRevalidated: boolean): Promise<void> => {
  response.type("json");
  const isLong = bytes.length >= COMPRESSED_MIN_BYTES;
  const isPacked = isLong && takesGzip(response);
  if (isRevalidated) {
    // Of these credentials alone, and never used without asking.
    response.set("Cache-Control", "private, no-cache");
    if (isKnown(response, etagOf(bytes))) return;
  }
  if (!isPacked) return write(response, bytes);
  const packed = await compress(bytes, FAST);
  response.set("Content-Encoding", "gzip");
  write(response, packed);
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
  if (!isPacked) return write(response, plain);
  ready.packed ??= compress(plain, FAST);
  const packed = await ready.packed;
  response.set("Content-Encoding", "gzip");
  write(response, packed);
};

/** A body that is the same for as long as the process lives. */
export type FixedBody = { plain: Buffer; packed: Buffer; etag: string };

export const fixedBody = async (plain: Buffer): Promise<FixedBody> => ({
  plain,
  packed: await compress(plain),
  etag: etagOf(plain),
});

/** Sends a fixed body; the caller has set its type. */
export const sendFixed = (response: Response, { plain, packed, etag }: FixedBody): void => {
  const isPacked = takesGzip(response);
  if (isKnown(response, etag)) return;
  if (isPacked) response.set("Content-Encoding", "gzip");
  write(response, isPacked ? packed : plain);
};

/**
 * Inflates the gzip of a request's body, outside the event loop and no further than `limit` bytes.
 * @throws DomainError PAYLOAD_TOO_LARGE beyond them, VALIDATION_ERROR MALFORMED_GZIP
 */
export const inflated = async (packed: Buffer, limit: number): Promise<Buffer> => {
  try {
    return await inflate(packed, { maxOutputLength: limit });
  } catch (error) {
    if (codeOf(error) === "ERR_BUFFER_TOO_LARGE")
      throw new DomainError("PAYLOAD_TOO_LARGE", `The body may have at most ${limit} bytes when inflated`);
    throw new DomainError("VALIDATION_ERROR", "The body is not valid gzip", { reason: "MALFORMED_GZIP" });
  }
};

/** A client that takes no piece for this long is cut off, in ms: what is behind it may be a transaction. */
const PIECE_MS = 30_000;
/** The longest that a body of one snapshot may take, in ms: the database cleans nothing up meanwhile. */
const SNAPSHOT_MS = 15 * 60_000;

/** Bytes of a body, `to` included. */
export type ByteRange = { from: number; to: number };

type Put = (piece: string | Uint8Array) => Promise<void>;

/** Where a streamed body comes from. `type`: its media type. */
type Source = { type: string } & (
  | {
      kind: "made";
      /** Names of the trailers that `make` returns, with which a complete body ends. */
      trailers: readonly string[];
      make(put: Put): Promise<Record<string, string>>;
    }
  | {
      /** Bytes that are there already and stay the same: a part of them can be asked for. */
      kind: "stored";
      length: number;
      etag: string;
      read(range: ByteRange, put: Put): Promise<void>;
    }
);

/** A body that is sent as it is made, no faster than its client reads it. */
export class StreamedBody {
  readonly source: Source;
  constructor(source: Source) {
    this.source = source;
  }
}

type Head = { status: number; headers: Record<string, string> };

/** Where the pieces of a body go. Nothing is sent before the first: until then an error is an answer. */
class Outlet {
  readonly #response: Response;
  readonly #open: () => Writable;
  #target: Writable | undefined;

  constructor(response: Response, open: () => Writable) {
    this.#response = response;
    this.#open = open;
  }

  /** Writes a piece, and waits until most of it is on its way. @throws ClientGone */
  readonly put: Put = async (piece) => {
    if (this.#response.destroyed) throw new ClientGone();
    this.#target ??= this.#open();
    if (piece.length > 0 && !this.#target.write(piece)) await this.#taken("drain");
  };

  /** Ends a complete body with its trailers. @throws ClientGone */
  async end(trailers: Record<string, string>): Promise<void> {
    this.#target ??= this.#open();
    if (this.#target !== this.#response) {
      this.#target.end();
      await this.#taken("end");
    }
    this.#response.addTrailers(trailers);
    this.#response.end();
  }

  close(): void {
    if (this.#target !== this.#response) this.#target?.destroy();
  }

  /** Waits for an event of the target while the client is there and reads. */
  async #taken(event: "drain" | "end"): Promise<void> {
    const over = new AbortController();
    const end = (): void => over.abort();
    const timer = setTimeout(() => this.#response.destroy(), PIECE_MS);
    this.#response.once("close", end);
    try {
      await once(this.#target!, event, { signal: over.signal });
    } catch (error) {
      throw over.signal.aborted ? new ClientGone() : error;
    } finally {
      clearTimeout(timer);
      this.#response.off("close", end);
    }
  }
}

/** Opens the response for a body of unknown length: compressed where the client takes that. */
const openMade =
  (response: Response, { status, headers }: Head, trailers: readonly string[]) =>
  (): Writable => {
    const isPacked = takesGzip(response);
    response.status(status).set(headers);
    // They come all the same, but proxies that do not know them pass on no answer that announces them.
    if (trailers.length > 0 && response.req.get("te")?.includes("trailers"))
      response.set("Trailer", trailers.join(", "));
    if (!isPacked) return response;
    response.set("Content-Encoding", "gzip");
    const packer = createGzip({ level: constants.Z_BEST_SPEED });
    packer.once("error", () => response.destroy());
    packer.pipe(response, { end: false });
    return packer;
  };

/** Returns what refuses further pieces of a body that has taken too long. */
const untilTooLate = (put: Put): Put => {
  const startedMs = performance.now();
  return async (piece) => {
    if (performance.now() - startedMs > SNAPSHOT_MS)
      throw new DomainError("REQUEST_TIMEOUT", "the body has taken too long");
    await put(piece);
  };
};

const sendMade = async (
  response: Response,
  head: Head,
  { trailers, make }: Extract<Source, { kind: "made" }>,
): Promise<void> => {
  if (response.req.method === "HEAD") return void response.status(head.status).set(head.headers).end();
  const outlet = new Outlet(response, openMade(response, head, trailers));
  try {
    await outlet.end(await withTimeouts(STREAM, () => make(untilTooLate(outlet.put))));
  } finally {
    outlet.close();
  }
};

/** Whether a part is asked for of this very version (RFC 9110, 13.1.5). */
const isOfVersion = (response: Response, etag: string): boolean => {
  const version = response.req.get("if-range");
  return version === undefined || version === etag;
};

/**
 * Returns the part that a request asks for; undefined for the whole, which also several parts and other units
 * get; null where the body has no such part.
 */
const rangeOf = (text: string, length: number): ByteRange | undefined | null => {
  const [whole, first = "", last = "", suffix] = /^bytes=(?:(\d+)-(\d*)|-(\d+))$/.exec(text.trim()) ?? [];
  if (whole === undefined) return undefined;
  const from = suffix === undefined ? Number(first) : Math.max(0, length - Number(suffix));
  const to = last === "" ? length - 1 : Number(last);
  if (last !== "" && to < from) return undefined;
  return from >= length ? null : { from, to: Math.min(to, length - 1) };
};

const refuseRange = (response: Response, length: number, now: Date): void => {
  const error = new DomainError("VALIDATION_ERROR", `Range: the file has ${length} bytes`, {
    reason: "RANGE_NOT_SATISFIABLE",
  });
  response.status(416).set("Content-Range", `bytes */${length}`);
  response.json(errorBody(error, String(response.locals["requestId"]), now));
};

const sendStored = async (
  response: Response,
  { status, headers }: Head,
  { length, etag, read }: Extract<Source, { kind: "stored" }>,
): Promise<void> => {
  response.set({ "Accept-Ranges": "bytes", ETag: etag, "Cache-Control": "private, no-cache" });
  const wanted = isOfVersion(response, etag) ? rangeOf(response.req.get("range") ?? "", length) : undefined;
  if (wanted === null) return refuseRange(response, length, new Date());
  const range = wanted ?? { from: 0, to: length - 1 };
  response.status(wanted ? 206 : status).set(headers);
  response.set("Content-Length", String(range.to - range.from + 1));
  if (wanted) response.set("Content-Range", `bytes ${range.from}-${range.to}/${length}`);
  if (response.req.method === "HEAD") return void response.end();
  const outlet = new Outlet(response, () => response);
  await read(range, outlet.put);
  await outlet.end({});
};

/**
 * Sends a body as it is made. After the first byte an error ends the connection, so that a body that is cut
 * short is never taken for a whole one.
 */
export const sendStreamed = (response: Response, { source }: StreamedBody, head: Head): Promise<void> => {
  const typed = { ...head, headers: { "Content-Type": source.type, ...head.headers } };
  return source.kind === "made" ? sendMade(response, typed, source) : sendStored(response, typed, source);
};
