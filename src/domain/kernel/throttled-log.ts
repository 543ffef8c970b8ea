/** The subset of the logger used here. */
type Warns = { warn(fields: object, message: string): void };

/** Minimum interval between warnings of one kind, in ms. */
const INTERVAL_MS = 5_000;

export type ThrottledWarning = (err: unknown, message: string) => void;

/**
 * Throttles warnings about a repeated failure: logs the first one at once, then one per interval with the
 * number of those suppressed in between.
 */
export const throttledWarnings = (log: Warns): ThrottledWarning => {
  let nextAtMs = -Infinity;
  let leftOut = 0;
  return (err, message) => {
    const nowMs = performance.now();
    if (nowMs < nextAtMs) {
      leftOut++;
      return;
    }
    nextAtMs = nowMs + INTERVAL_MS;
    log.warn(leftOut > 0 ? { err, leftOut } : { err }, message);
    leftOut = 0;
  };
};
