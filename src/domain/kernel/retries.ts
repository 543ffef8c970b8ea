/** Delays before failed work is attempted again, in ms; after the last one it is FAILED. */
export const RETRY_DELAYS_MS = [1_000, 10_000, 60_000];
