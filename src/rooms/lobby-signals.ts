import { z } from "zod";
import {
  SIGNAL_MAX_BYTES,
  SIGNAL_TO_MAX,
  SIGNALS_PER_SECOND_MAX,
} from "../domain/social/lobbies/room-limits.ts";
import { RateLimited } from "../domain/accounts/rate-limits/limiter.ts";

const SECOND_MS = 1_000;

export const SignalBody = z.object({
  to: z
    .union([z.uuid().toLowerCase(), z.array(z.uuid().toLowerCase()).min(1).max(SIGNAL_TO_MAX)])
    .transform((to) => (typeof to === "string" ? [to] : to))
    .nullish(),
  payload: z.json().refine((payload) => Buffer.byteLength(JSON.stringify(payload)) <= SIGNAL_MAX_BYTES, {
    error: `must be at most ${SIGNAL_MAX_BYTES} bytes of JSON`,
  }),
});

/** Counts the signals of each member of one room. */
export class SignalRate {
  readonly #counts = new Map<string, { sinceMs: number; count: number }>();

  /** @throws DomainError RATE_LIMITED beyond SIGNALS_PER_SECOND_MAX */
  count(playerId: string, nowMs: number): void {
    const held = this.#counts.get(playerId);
    const current = held && nowMs - held.sinceMs < SECOND_MS ? held : { sinceMs: nowMs, count: 0 };
    this.#counts.set(playerId, current);
    current.count += 1;
    if (current.count <= SIGNALS_PER_SECOND_MAX) return;
    const state = {
      isAllowed: false,
      limit: SIGNALS_PER_SECOND_MAX,
      remaining: 0,
      windowSeconds: 1,
      resetAtMs: current.sinceMs + SECOND_MS,
    };
    const message = `more than ${SIGNALS_PER_SECOND_MAX} signals in a second`;
    throw new RateLimited("SIGNALS_PER_SECOND", message, state, nowMs);
  }

  forget(playerId: string): void {
    this.#counts.delete(playerId);
  }
}
