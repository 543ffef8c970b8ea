import type { App } from "../app.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { noteAbuse } from "../domain/accounts/rate-limits/abuse.ts";
import type { LimitState } from "../domain/accounts/rate-limits/limiter.ts";
import { countRequest } from "../domain/accounts/rate-limits/request-limits.ts";
import type { AnyRoute } from "./route.ts";

/** What an answer tells about the narrowest limit of its request. */
export const limitHeaders = ({ limit, remaining, resetAtMs }: LimitState): Record<string, string> => ({
  "X-RateLimit-Limit": String(limit),
  "X-RateLimit-Remaining": String(remaining),
  // Unix seconds, up: who comes back then is not too early.
  "X-RateLimit-Reset": String(Math.ceil(resetAtMs / 1_000)),
});

/**
 * Counts the request against every limit that it has, and gives the headers that its answer must have.
 * @throws RateLimited
 */
export const consumeLimits = async (
  app: App,
  { limits = [] }: AnyRoute,
  caller: Caller,
  ip: string,
): Promise<Record<string, string>> => {
  const state = await countRequest(app, caller, ip, limits);
  return state === undefined ? {} : limitHeaders(state);
};

/** Counts a request without valid credentials; gives the headers of its answer. @throws RateLimited */
export const countAnonymous = async (app: App, ip: string): Promise<Record<string, string>> => {
  const state = await countRequest(app, { kind: "anonymous" }, ip, []);
  return state === undefined ? {} : limitHeaders(state);
};

/**
 * Counts a request whose API key is none, as one without credentials and as an abuse: too many of an address
 * block it for a while. Gives the headers that its answer must have. @throws RateLimited
 */
export const countBadKey = async (app: App, ip: string): Promise<Record<string, string>> => {
  await noteAbuse(app, "badKeys", ip);
  return countAnonymous(app, ip);
};
