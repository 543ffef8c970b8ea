import { DomainError } from "../errors.ts";

/** A limit: so many points in a window that opens with the first one. Keys of one name share nothing else. */
export type Bucket = { name: string; points: number; seconds: number };

export type LimitState = {
  isAllowed: boolean;
  /** Points in the window, and how many are left. */
  limit: number;
  remaining: number;
  windowSeconds: number;
  /** When the window closes; Unix ms. */
  resetAtMs: number;
};

/** Counts over all processes, exactly; while the shared store is away, each process counts by itself. */
export type Limiter = {
  consume(bucket: Bucket, key: string, points?: number): Promise<LimitState>;
  /** As it stands, without counting. */
  read(bucket: Bucket, key: string): Promise<LimitState>;
  reset(bucket: Bucket, key: string): Promise<void>;
};

/** A 429 that tells its limit, so that the answer has the headers. */
export class RateLimited extends DomainError {
  readonly state: LimitState;
  constructor(reason: string, message: string, state: LimitState, nowMs: number) {
    const retryAfterSeconds = Math.max(1, Math.ceil((state.resetAtMs - nowMs) / 1_000));
    super("RATE_LIMITED", message, { reason, retryAfterSeconds });
    this.state = state;
  }
}
