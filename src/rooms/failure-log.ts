import { ServerError } from "@colyseus/core";
import type { App } from "../app.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { errorObject } from "./errors.ts";

/**
 * Logs what a room has thrown: a bug as an error with the fields `of` the room, an outage as one rate-limited
 * warning, and a refusal, which the client receives, not at all.
 */
export const logFailure = (
  { log, warnOfOutage }: Pick<App, "log" | "warnOfOutage">,
  error: unknown,
  of: Record<string, string>,
): void => {
  if (error instanceof DomainError || error instanceof ServerError) return;
  if (outageOf(error) !== undefined)
    warnOfOutage(error, "rooms cannot do all that they are asked: what they need does not answer");
  else if (!errorObject(error)) log.error({ err: error, ...of }, "room failed");
};
