import type { App } from "../app.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { noteAbuse } from "../domain/accounts/rate-limits/ip-blocks.ts";
import { countRequest, isOfThisMachine, limitHeaders } from "../domain/accounts/rate-limits/limiter.ts";
import type { AnyRoute } from "./route.ts";

/** Whether somebody tries Laurel out on their own machine, where the guides register again and again. */
const isTriedOut = ({ config }: App, ip: string): boolean =>
  !config.isProduction && config.mode === "embedded" && isOfThisMachine(ip);

/**
 * Counts the request against all its limits, and returns the headers for its response.
 * @throws RateLimited
 */
export const consumeLimits = async (
  app: App,
  { limits = [], requireSigned }: AnyRoute,
  caller: Caller,
  ip: string,
): Promise<Record<string, string>> => {
  if (requireSigned) return {};
  const counted = limits.filter((name) => name !== "registration" || !isTriedOut(app, ip));
  const state = await countRequest(app, caller, ip, counted);
  return state === undefined ? {} : limitHeaders(state);
};

/** Counts a request without valid credentials; returns the headers for its response. @throws RateLimited */
export const countAnonymous = async (app: App, ip: string): Promise<Record<string, string>> => {
  const state = await countRequest(app, { kind: "anonymous" }, ip, []);
  return state === undefined ? {} : limitHeaders(state);
};

/**
 * Counts a request with an invalid API key, both as one without credentials and as abuse: too many of an
 * address block it for a while. Returns the headers for its response. @throws RateLimited
 */
export const countBadKey = async (app: App, ip: string): Promise<Record<string, string>> => {
  await noteAbuse(app, "badKeys", ip);
  return countAnonymous(app, ip);
};
