import express, { type Request, type RequestHandler, type Response } from "express";
import { DomainError } from "../domain/kernel/errors.ts";
import { BODY_LIMIT, BODY_NAMES_MAX, BODY_PARTS_MAX, LARGE_BODY_PARTS_MAX } from "../domain/kernel/limits.ts";
import { nextSlice } from "../domain/kernel/slices.ts";
import { countParts } from "./json-size.ts";

const tooLarge = (limit: number): DomainError =>
  new DomainError("PAYLOAD_TOO_LARGE", `The body may have at most ${limit} bytes`);

const hasBody = (request: Request): boolean =>
  request.headers["transfer-encoding"] !== undefined || Number(request.headers["content-length"] ?? 0) > 0;

/** @throws DomainError PAYLOAD_TOO_LARGE or UNSUPPORTED_MEDIA_TYPE, based on the headers alone */
export const checkBodyHeaders = (request: Request, limit = BODY_LIMIT): void => {
  if (!hasBody(request)) return;
  if (Number(request.headers["content-length"] ?? 0) > limit) throw tooLarge(limit);
  const charset =
    /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(request.headers["content-type"] ?? "")?.[1] ?? "utf-8";
  if (!request.is("application/json") || !/^utf-?8$/i.test(charset)) {
    throw new DomainError("UNSUPPORTED_MEDIA_TYPE", "Content-Type must be application/json in UTF-8");
  }
};

const readers = new Map<number, RequestHandler>();

const readerOf = (limit: number): RequestHandler => {
  let reader = readers.get(limit);
  if (!reader) readers.set(limit, (reader = express.raw({ limit, type: () => true, inflate: false })));
  return reader;
};

const isTooLarge = (error: Error): boolean => "type" in error && error.type === "entity.too.large";

const readBytes = (request: Request, response: Response, limit: number): Promise<void> =>
  new Promise((resolve, reject) => {
    void readerOf(limit)(request, response, (error?: unknown) => {
      if (error instanceof Error) reject(isTooLarge(error) ? tooLarge(limit) : error);
      else resolve();
    });
  });

/**
 * Number of names and values above which other requests are served between parsing a body and checking it.
 */
const PARTS_AT_ONCE = 20_000;

/** @returns how many names and values the JSON holds @throws DomainError PAYLOAD_TOO_LARGE */
const checkParts = (bytes: Uint8Array, limit: number): number => {
  const max = limit > BODY_LIMIT ? LARGE_BODY_PARTS_MAX : BODY_PARTS_MAX;
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

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Parses the JSON of a request's body; `{}` when there is none.
 * @throws DomainError PAYLOAD_TOO_LARGE past `limit` bytes (chunked ones included) or with too many names and
 * values, VALIDATION_ERROR MALFORMED_JSON
 */
export const readJson = async (
  request: Request,
  response: Response,
  limit = BODY_LIMIT,
): Promise<unknown> => {
  if (!hasBody(request)) return {};
  await readBytes(request, response, limit);
  const bytes: unknown = request.body;
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) return {};
  const parts = checkParts(bytes, limit);
  const value = parse(bytes);
  if (parts > PARTS_AT_ONCE) await nextSlice();
  return value;
};

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
