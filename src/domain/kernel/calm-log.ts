/** The part of a log that is used here. */
type Warns = { warn(fields: object, message: string): void };

/** Warnings of one kind are at least this far apart, in ms. */
const CALM_MS = 5_000;

export type CalmWarning = (err: unknown, message: string) => void;

/**
 * Logs warnings of something that fails again and again: the first one at once, then one in CALM_MS with the
 * number of those that were left out in between.
 */
export const calmWarnings = (log: Warns): CalmWarning => {
  let nextAtMs = -Infinity;
  let leftOut = 0;
  return (err, message) => {
    const nowMs = performance.now();
    if (nowMs < nextAtMs) {
      leftOut++;
      return;
    }
    nextAtMs = nowMs + CALM_MS;
    log.warn(leftOut > 0 ? { err, leftOut } : { err }, message);
    leftOut = 0;
  };
};
