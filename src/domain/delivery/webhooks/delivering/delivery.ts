export const DELIVERY_STATUSES = ["pending", "success", "failed"] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** The delay before each attempt, in ms, from the end of the one before (the specification's table). */
export const ATTEMPT_DELAYS_MS = [0, 60_000, 300_000, 1_800_000, 7_200_000] as const;
export const ATTEMPTS_MAX = ATTEMPT_DELAYS_MS.length;

/** One attempt, as logged. */
export type Attempt = {
  /** From 1; starts over after a restart. */
  attempt: number;
  at: string;
  durationMs: number;
  responseCode: number | null;
  responseBody: string | null;
  error: string | null;
};
/** Maximum number of attempts in the log of a delivery; the newest are kept. */
export const ATTEMPTS_KEPT = 15;
