import { DomainError } from "../../kernel/errors.ts";

/** A limit: maximum points in a window that opens with the first one. Each name has its own keys. */
export type Bucket = { name: string; points: number; seconds: number };

export type LimitState = {
  isAllowed: boolean;
  /** Points of the window, and the remaining ones. */
  limit: number;
  remaining: number;
  windowSeconds: number;
  /** End of the window in Unix ms. */
  resetAtMs: number;
};

/** A state with the points counted, including those of rejected requests. */
export type Counted = LimitState & { used: number };

/** Points to be counted for a key. */
export type Count = { bucket: Bucket; key: string; points?: number };

/** A point that was counted, and when its window was said to end, in Unix ms. */
export type Given = Omit<Count, "points"> & Pick<LimitState, "resetAtMs">;

/**
 * Exact counters over all processes; while the shared store is unavailable, each process counts by itself. It
 * never throws and never delays a request because of a store that hangs. A window does not store its limit:
 * `points` of the bucket passed in decides, so a new limit applies to open windows.
 */
export type Limiter = {
  consume(bucket: Bucket, key: string, points?: number): Promise<Counted>;
  /** Several `consume` in order, up to the first exhausted one, in one round trip. */
  consumeInTurn(counts: readonly Count[]): Promise<Counted[]>;
  /** Takes points back where the windows in which they were counted are still open. */
  giveBack(given: readonly Given[]): Promise<void>;
  /** Reads the state without counting. */
  read(bucket: Bucket, key: string): Promise<Counted>;
  reset(bucket: Bucket, key: string): Promise<void>;
};

/** Returns the headers about the narrowest limit of a request. */
export const limitHeaders = ({ limit, remaining, resetAtMs }: LimitState): Record<string, string> => ({
  "X-RateLimit-Limit": String(limit),
  "X-RateLimit-Remaining": String(remaining),
  // Unix seconds, rounded up, so that clients do not return too early.
  "X-RateLimit-Reset": String(Math.ceil(resetAtMs / 1_000)),
});

/** A 429 error with the state of its limit for the headers of the response. */
export class RateLimited extends DomainError {
  readonly state: LimitState;
  constructor(reason: string, message: string, state: LimitState, nowMs: number) {
    const retryAfterSeconds = Math.max(1, Math.ceil((state.resetAtMs - nowMs) / 1_000));
    super("RATE_LIMITED", message, { reason, retryAfterSeconds });
    this.state = state;
  }
}
