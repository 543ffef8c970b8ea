import { ServerError } from "@colyseus/core";
import type { Logger } from "pino";
import { DomainError } from "../domain/kernel/errors.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { type ThrottledWarning, throttledWarnings } from "../domain/kernel/throttled-log.ts";
import { errorObject } from "./errors.ts";

/** The warnings of all rooms of a process, which an outage meets together. */
const warnings = new WeakMap<Logger, ThrottledWarning>();

const warningsOf = (log: Logger): ThrottledWarning => {
  const known = warnings.get(log);
  if (known) return known;
  const warn = throttledWarnings(log);
  warnings.set(log, warn);
  return warn;
};

/**
 * Logs what a room has thrown: a bug as an error with the fields `of` the room, an outage as one warning in
 * a while, and a refusal that the client is told of not at all.
 */
export const logFailure = (log: Logger, error: unknown, of: Record<string, string>): void => {
  if (error instanceof DomainError || error instanceof ServerError) return;
  if (outageOf(error) !== undefined)
    warningsOf(log)(error, "rooms cannot do all that they are asked: what they need does not answer");
  else if (!errorObject(error)) log.error({ err: error, ...of }, "room failed");
};
