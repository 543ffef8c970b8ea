import type { IncomingMessage, ServerResponse } from "node:http";
import { type AuthContext, getBearerToken, matchMaker } from "@colyseus/core";
import { z } from "zod";
import type { App } from "../app.ts";
import { DomainError, ERROR_STATUS, invalid, notFound } from "../domain/errors.ts";
import { newId } from "../domain/ids.ts";
import { MATCHMAKE_BODY_LIMIT } from "../domain/limits.ts";
import { clientAddress } from "../domain/rate-limits/ip-address.ts";
import { refuseBlockedAddress } from "../domain/rate-limits/ip-blocks.ts";
import { errorObject, INTERNAL_ERROR, parse } from "./errors.ts";

/** What the SDK may ask for: a room is never made or entered by its id. */
export const METHODS = ["joinOrCreate", "reconnect"] as const;
type Method = (typeof METHODS)[number];

const PATH = /^\/matchmake\/(\w{1,32})\/([A-Za-z0-9_-]{1,64})$/;
const ReconnectBody = z.object({ reconnectionToken: z.string().min(1).max(64) });

const isMethod = (name: string | undefined): name is Method => METHODS.some((method) => method === name);

/** The JSON object of a request's body, read to the end but no further than the limit. */
const readBody = async (request: IncomingMessage): Promise<object> => {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > MATCHMAKE_BODY_LIMIT)
      throw new DomainError("PAYLOAD_TOO_LARGE", "join options of at most 16 KiB");
    chunks.push(chunk);
  }
  if (bytes === 0) return {};
  let body: unknown;
  try {
    body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw invalid("body", "must be JSON");
  }
  if (body === null || typeof body !== "object" || Array.isArray(body))
    throw invalid("body", "must be an object");
  return body;
};

/** Core reads `hasOwnProperty` off the options, which a client may have overwritten. */
const withPrototype = (body: object): object =>
  Object.fromEntries(Object.entries(body).filter(([key]) => !(key in {})));

/** The method and the room of a request. @throws DomainError for what cannot be served */
const readAddress = ({ url = "", method: verb }: IncomingMessage): { method: Method; target: string } => {
  const [, method, target = ""] = PATH.exec(url.split("?", 1)[0] ?? "") ?? [];
  if (!isMethod(method)) throw notFound("matchmaking method");
  if (verb !== "POST") throw new DomainError("METHOD_NOT_ALLOWED", "This address answers POST");
  return { method, target };
};

const reserveSeat = async (request: IncomingMessage): Promise<unknown> => {
  const { method, target } = readAddress(request);
  if (matchMaker.state !== matchMaker.MatchMakerState.READY) {
    const retry = { retryAfterSeconds: 1 };
    throw new DomainError("SERVICE_UNAVAILABLE", "the server is starting or stopping", retry);
  }
  const body = await readBody(request);
  if (method === "reconnect") return matchMaker.reconnect(target, parse(ReconnectBody, body));
  const token = getBearerToken(request.headers.authorization ?? "");
  const { origin } = request.headers;
  const headers = new Headers(origin === undefined ? {} : { origin });
  const context: AuthContext = { ip: undefined, headers, ...(token ? { token } : {}) };
  return matchMaker.joinOrCreate(target, withPrototype(body), context);
};

/** The client's address, by X-Forwarded-For as far as TRUSTED_PROXIES vouch for it. */
const addressOf = ({ socket, headers }: IncomingMessage, { config }: App): string => {
  const forwardedFor = headers["x-forwarded-for"]?.toString();
  return clientAddress({ remoteAddress: socket.remoteAddress, forwardedFor }, config.trustedProxies);
};

const answer = (response: ServerResponse, status: number, body: unknown): void => {
  if (response.headersSent || response.destroyed) return;
  response.statusCode = status;
  response.setHeader("Content-Type", "application/json; charset=utf-8");
  response.setHeader("Cache-Control", "no-store");
  response.end(JSON.stringify(body));
};

/**
 * Answers a request for a seat in a room, and never rejects. Errors have the body of every other operation,
 * and beside it `message`, which is what the SDK's error shows. Core's own route would answer 200 for an
 * error with a text code and an empty 500 for one beyond 599.
 */
export const answerMatchmake = async (
  app: App,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> => {
  try {
    await refuseBlockedAddress(app, addressOf(request, app));
    answer(response, 200, await reserveSeat(request));
  } catch (error) {
    const known = errorObject(error);
    const requestId = newId();
    if (!known) app.log.error({ err: error, requestId }, "matchmaking failed");
    const told = known ?? INTERNAL_ERROR;
    const retryAfter = error instanceof DomainError ? error.retryAfterSeconds : undefined;
    if (retryAfter !== undefined) response.setHeader("Retry-After", String(Math.ceil(retryAfter)));
    // What is left of a body that was refused is not read.
    if (!request.complete) response.setHeader("Connection", "close");
    const timestamp = app.clock().toISOString();
    answer(response, ERROR_STATUS[told.code], {
      error: { ...told, requestId, timestamp },
      message: told.message,
    });
  }
};

export const isMatchmake = ({ url = "" }: IncomingMessage): boolean => url.startsWith("/matchmake/");
