/** Maximum number of concurrent attempts per endpoint and process. */
export const ENDPOINT_MAX = 4;
/** Consecutive slow failures after which an endpoint only gets one attempt at a time. */
const SLOW_FAILURES_MAX = 5;
/** An attempt that takes longer is slow, in ms. */
export const SLOW_MS = 500;

/**
 * A process's circuit breaker for an endpoint. One that is not trusted gets one attempt at a time: a new one
 * until it has answered once, and one whose attempts hang until it answers again. Fast failures delay nobody,
 * so they cost no trust.
 */
export type Circuit = { isTrusted: boolean; slowFailures: number };

export const NEW_CIRCUIT: Circuit = { isTrusted: false, slowFailures: 0 };

/** Returns the circuit after an attempt. */
export const afterAttempt = (
  { isTrusted, slowFailures }: Circuit,
  { isSuccess, durationMs }: { isSuccess: boolean; durationMs: number },
): Circuit => {
  if (isSuccess || durationMs <= SLOW_MS) return { isTrusted: true, slowFailures: 0 };
  const failures = slowFailures + 1;
  return { isTrusted: isTrusted && failures < SLOW_FAILURES_MAX, slowFailures: failures };
};

export const inFlightMax = ({ isTrusted }: Circuit): number => (isTrusted ? ENDPOINT_MAX : 1);

/** Whether its attempts count as slow from the start. */
export const isSuspect = ({ isTrusted, slowFailures }: Circuit): boolean => !isTrusted && slowFailures > 0;
