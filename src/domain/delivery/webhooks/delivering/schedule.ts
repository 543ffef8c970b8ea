import { ATTEMPT_DELAYS_MS } from "./delivery.ts";

/** The most that a wait is lengthened by chance, so that what failed together does not come back together. */
const JITTER_MAX = 0.05;
/** Retry-After is followed up to this many times the wait of the table. */
const RETRY_AFTER_MAX = 2;

/**
 * The wait from the end of a failed attempt to the next one, in ms: that of the table, up to 5 % longer by
 * chance, or what the endpoint asked for, up to twice that of the table.
 * @param attempts that have been made in this cycle, the failed one included
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
