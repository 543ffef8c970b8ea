import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { pastEvent } from "../../../src/domain/evaluation/rule-event.ts";
import {
  type CompiledStreak,
  compileStreak,
  type Settled,
  type Step,
  type Streak,
  untouched,
} from "../../../src/domain/evaluation/streaks/compile.ts";
import { DEFAULT_SETTINGS } from "../../../src/domain/evaluation/project-settings.ts";
import { qualify } from "../../../src/domain/evaluation/streaks/qualify.ts";
import { settle, type ZoneChange } from "../../../src/domain/evaluation/streaks/settle.ts";
import { aDefinition } from "../rules/plan.ts";

export const DAY_MS = 86_400_000;
export const HOUR_MS = 3_600_000;
export const T = (text: string): number => Date.parse(text);

/** A streak of days in which something was `done`, unless told otherwise. */
export const aStreak = (more: Json = {}, settings = DEFAULT_SETTINGS): CompiledStreak => {
  const qualifies = { parts: [{ metric: { eventTypes: ["done"], aggregate: "count" } }] };
  const { id, definition } = aDefinition("streak", { key: "s", name: "S", qualify: qualifies, ...more });
  return compileStreak({ id, definition: definition as unknown as CompiledStreak["definition"], settings });
};

export type Played = { type?: string; properties?: Json };

/** One player's streak, played by hand: the pure core without turns and tables. */
export const aPlayedStreak = (streak: CompiledStreak, zone = "UTC", begin = untouched(streak)) => {
  let state: Streak = begin;
  let now: ZoneChange = { zone, changedMs: null };
  const steps: Step[] = [];
  const take = (settled: Settled): boolean => {
    const isOther = settled.state !== state;
    ({ state } = settled);
    steps.push(...settled.steps);
    return isOther && settled.steps.some(({ kind }) => kind === "EXTENDED");
  };
  return {
    steps,
    get state() {
      return state;
    },
    /** @returns whether the event extended the streak */
    hit: (at: number | string, { type = "done", properties = {} }: Played = {}): boolean => {
      const atMs = typeof at === "number" ? at : T(at);
      return take(
        qualify(streak, state, { context: pastEvent({ id: "e", type, at: atMs, properties }), zone: now }),
      );
    },
    settle: (at: number | string) => void take(settle(streak, state, typeof at === "number" ? at : T(at))),
    move: (to: string, at: string) => void (now = { zone: to, changedMs: T(at) }),
    kinds: () => steps.map(({ kind }) => kind),
  };
};
