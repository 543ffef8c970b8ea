import { ServerError } from "@colyseus/core";
import type { Logger } from "pino";
import { DomainError } from "../domain/kernel/errors.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { type CalmWarning, calmWarnings } from "../domain/kernel/calm-log.ts";
import { errorObject } from "./errors.ts";

/** Rate-limited warnings shared by all rooms of a process, which an outage hits together. */
const warnings = new WeakMap<Logger, CalmWarning>();

const warningsOf = (log: Logger): CalmWarning => {
  const known = warnings.get(log);
  if (known) return known;
  const warn = calmWarnings(log);
  warnings.set(log, warn);
  return warn;
};

/**
 * Logs what a room has thrown: a bug as an error with the fields `of` the room, an outage as one rate-limited
 * warning, and a refusal, which the client receives, not at all.
 */
export const logFailure = (log: Logger, error: unknown, of: Record<string, string>): void => {
  if (error instanceof DomainError || error instanceof ServerError) return;
  if (outageOf(error) !== undefined)
    warningsOf(log)(error, "rooms cannot do all that they are asked: what they need does not answer");
  else if (!errorObject(error)) log.error({ err: error, ...of }, "room failed");
};
