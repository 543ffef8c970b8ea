import type { Json } from "../../../src/domain/kernel/events/events.ts";
import type { PlayerState } from "../../../src/domain/evaluation/player-state.ts";
import { advanceStreaks } from "../../../src/domain/evaluation/streaks/advance.ts";
import { settleDue } from "../../../src/domain/economy/streaks/player-streaks.ts";
import type { Streak } from "../../../src/domain/evaluation/streaks/compile.ts";
import { aPass, aPlan, aPlayerState } from "../rules/plan.ts";
import { DAY_MS, T } from "./streaks.ts";

export const qualify = { parts: [{ metric: { eventTypes: ["done"], aggregate: "count" } }] };
/** Noon of a day of January 2026. */
export const noon = (day: number): number => T("2026-01-01T12:00Z") + (day - 1) * DAY_MS;

/** A player whose streak `s` is played in turns, each at its own time unless told otherwise. */
export const aGame = (more: Json = {}, player: PlayerState = aPlayerState()) => {
  const plan = aPlan({ define: { streak: [{ key: "s", name: "S", qualify, ...more }] } });
  const told: [type: string, data: Json][] = [];
  const ledger: string[] = [];
  const runs: unknown[] = [];
  const take = ({ effects }: ReturnType<typeof aPass>): void => {
    told.push(...effects.outbox.map(({ type, data }): [string, Json] => [type, data as Json]));
    ledger.push(...effects.ledger.map(({ key }) => key));
    runs.push(
      ...effects.streakRuns.map(({ startedOn, endedOn, length, endedBy }) => [
        startedOn,
        endedOn,
        length,
        endedBy,
      ]),
    );
  };
  const turnAt = (at: number, nowMs = at) => aPass({ plan, player, nowMs, event: { type: "done", at } });
  return {
    plan,
    player,
    ledger,
    runs,
    get streak() {
      return player.streaks.get("s") as Streak;
    },
    hit: (at: number, nowMs = at) => {
      const pass = turnAt(at, nowMs);
      advanceStreaks(pass.turn);
      take(pass);
    },
    during: <T>(at: number, change: (pass: ReturnType<typeof aPass>) => T): T => {
      const pass = turnAt(at);
      const value = change(pass);
      take(pass);
      return value;
    },
    sweep: (nowMs: number) => {
      const pass = turnAt(nowMs);
      settleDue(pass.turn, "s");
      take(pass);
    },
    /** What was told since the last look, streaks only. */
    told: () => told.splice(0).filter(([type]) => type.startsWith("player.streak_")),
    types: () => told.splice(0).map(([type]) => type),
  };
};
