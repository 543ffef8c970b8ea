import type { PlayerNotice } from "../domain/kernel/events/realtime-events.ts";

/**
 * Minimum milliseconds between two notices about a board's standing; the last one is always delivered in the
 * end.
 */
export const PLACE_EVERY_MS = 1_000;

type Parts = {
  later(delayMs: number, run: () => unknown): void;
  send(notice: PlayerNotice): void;
};

/** Forwards notices; of those in quick succession (standings on one board) only the last. */
export class NoticeThrottle {
  readonly #parts: Parts;
  /** Boards with a recent notice, and the newest notice since. */
  readonly #held = new Map<string, PlayerNotice | undefined>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  pass(notice: PlayerNotice): void {
    if (notice.name !== "leaderboard.me") return this.#parts.send(notice);
    const { leaderboardKey, board } = notice.data;
    const key = `${leaderboardKey}\0${board}`;
    if (this.#held.has(key)) {
      this.#held.set(key, notice);
      return;
    }
    this.#held.set(key, undefined);
    this.#parts.send(notice);
    this.#parts.later(PLACE_EVERY_MS, () => {
      const last = this.#held.get(key);
      this.#held.delete(key);
      if (last) this.pass(last);
    });
  }
}
