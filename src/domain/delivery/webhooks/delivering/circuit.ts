/** At the same time, of one endpoint and process. */
export const ENDPOINT_MAX = 4;
/** Slow failures in a row after which an endpoint is only tried by one attempt at a time. */
const SLOW_FAILURES_MAX = 5;
/** An attempt that takes longer is slow, in ms. */
export const SLOW_MS = 500;

/**
 * What a process knows of an endpoint. One that is not trusted gets one attempt at a time: a new one until it
 * has answered once, and one that keeps attempts hanging until it answers again. Failing fast holds nobody
 * up, so it costs no trust.
 */
export type Circuit = { isTrusted: boolean; slowFailures: number };

export const NEW_CIRCUIT: Circuit = { isTrusted: false, slowFailures: 0 };

/** The circuit after an attempt. */
export const afterAttempt = (
  { isTrusted, slowFailures }: Circuit,
  { isSuccess, durationMs }: { isSuccess: boolean; durationMs: number },
): Circuit => {
  if (isSuccess || durationMs <= SLOW_MS) return { isTrusted: true, slowFailures: 0 };
  const failures = slowFailures + 1;
  return { isTrusted: isTrusted && failures < SLOW_FAILURES_MAX, slowFailures: failures };
};

export const inFlightMax = ({ isTrusted }: Circuit): number => (isTrusted ? ENDPOINT_MAX : 1);

/** Whether its attempts count as slow from their beginning. */
export const isSuspect = ({ isTrusted, slowFailures }: Circuit): boolean => !isTrusted && slowFailures > 0;
