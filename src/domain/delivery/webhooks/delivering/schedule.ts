import { ATTEMPT_DELAYS_MS } from "./delivery.ts";

/** Maximum random lengthening of a delay, so that simultaneous failures are not retried simultaneously. */
const JITTER_MAX = 0.05;
/** Retry-After is honoured up to this multiple of the table's delay. */
const RETRY_AFTER_MAX = 2;

/**
 * Returns the delay from the end of a failed attempt to the next one, in ms: that of the table, up to 5 %
 * longer at random, or what the endpoint asked for, up to twice that of the table.
 * @param attempts number of attempts made in this cycle, including the failed one
 * @param random from 0 to 1
 * @returns undefined when no attempt is left
 */
export const waitAfter = (
  attempts: number,
  { random, retryAfterSeconds }: { random: number; retryAfterSeconds: number | null },
): number | undefined => {
  const base = ATTEMPT_DELAYS_MS[attempts];
  if (base === undefined) return undefined;
  const asked = Math.min((retryAfterSeconds ?? 0) * 1_000, base * RETRY_AFTER_MAX);
  return Math.round(Math.max(base * (1 + JITTER_MAX * random), asked));
};
