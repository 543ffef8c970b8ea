/** The subset of the logger used here. */
type Warns = { warn(fields: object, message: string): void };

/** Minimum interval between warnings of one kind, in ms. */
const INTERVAL_MS = 5_000;

export type ThrottledWarning = (err: unknown, message: string) => void;

/**
 * Throttles warnings about repeated failures, each kind by itself: logs the first one at once, then one per
 * interval with the number of those suppressed in between. The message is the kind, so there must be few.
 */
export const throttledWarnings = (log: Warns): ThrottledWarning => {
  const kinds = new Map<string, { nextAtMs: number; leftOut: number }>();
  return (err, message) => {
    const nowMs = performance.now();
    const kind = kinds.get(message);
    if (kind && nowMs < kind.nextAtMs) {
      kind.leftOut++;
      return;
    }
    log.warn(kind && kind.leftOut > 0 ? { err, leftOut: kind.leftOut } : { err }, message);
    kinds.set(message, { nextAtMs: nowMs + INTERVAL_MS, leftOut: 0 });
  };
};
