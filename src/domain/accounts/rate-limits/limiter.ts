import { DomainError } from "../../kernel/errors.ts";

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

/** A state with what has been counted, which what was refused is part of. */
export type Counted = LimitState & { used: number };

/** One point of a key's window. */
export type Count = { bucket: Bucket; key: string; points?: number };

/**
 * Counts over all processes, exactly; while the shared store is away, each process counts by itself. It never
 * throws and never makes a request wait for a store that hangs. A window has no numbers of its own: `points`
 * of the bucket that is asked with decides, so a new number applies to the window that is open.
 */
export type Limiter = {
  consume(bucket: Bucket, key: string, points?: number): Promise<Counted>;
  /** As many `consume` one after another, up to the first that is used up, in one round trip. */
  consumeInTurn(counts: readonly Count[]): Promise<Counted[]>;
  /** As it stands, without counting. */
  read(bucket: Bucket, key: string): Promise<Counted>;
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
