import { isSubtractable, subtractSample, type AggregateState } from "../evaluation/metrics/aggregates.ts";
import { compileSample } from "../evaluation/metrics/compile.ts";
import type { Turn } from "../evaluation/turn.ts";
import { storeStreak } from "../evaluation/streaks/announce.ts";
import { stateOf } from "../evaluation/streaks/advance.ts";
import type { CompiledStreak } from "../evaluation/streaks/compile.ts";
import { deadlineAfter, periodAt, periodName } from "../evaluation/streaks/periods.ts";
import { isEnough, statesOf } from "../evaluation/streaks/progress.ts";
import { type Run, type Streak, without } from "../evaluation/streaks/state.ts";
import type { CausedEvent, PlayerRecord, Reversal, StreakDay, StreakDays } from "./record.ts";

type Extended = { streakKey: string; current: number; period: string; milestone: number | null };

/** Returns the periods that an event has completed. */
export const extensionsOf = (emitted: readonly CausedEvent[]): Extended[] =>
  emitted.filter(({ type }) => type === "player.streak_extended").map(({ data }) => data as Extended);

/**
 * Removes the event from the streaks that counted it, and the latest period of the run if no other event
 * completes that. Its other effects on streaks remain, and are reported.
 * @returns keys of the streaks that lost a period, whose rewards for that length are taken back too
 */
export const reverseStreaks = (
  turn: Turn,
  { event, emitted, longestRuns, days }: PlayerRecord,
  reversal: Reversal,
): ReadonlySet<string> => {
  const shortened = new Set<string>();
  const extensions = new Map(extensionsOf(emitted).map((one) => [one.streakKey, one]));
  for (const streak of turn.project.streaks.values()) {
    const { key } = streak.definition;
    const extended = extensions.get(key);
    if (!extended && !streak.listensTo(event.type)) continue;
    const fate = reverseStreak(turn, streak, {
      extended,
      longest: longestRuns.get(key) ?? 0,
      days: days.get(key),
    });
    if (fate === "STAYS") continue;
    if (fate !== undefined) reversal.streaks.add(key);
    if (fate === "FALLS") shortened.add(key);
    else if (fate === "FALLS_LATE") reversal.left.add(`streak ${key}: what its length has given`);
    else if (extended) reversal.left.add(`streak ${key}: the period that it extended`);
  }
  return shortened;
};

type Was = { extended: Extended | undefined; longest: number; days: StreakDays | undefined };

/**
 * What becomes of the period: other events complete it; it falls with what it gave; it falls, but an event
 * that was reverted before has completed it, whose rewards stayed. Undefined where nothing falls.
 */
type Fate = "STAYS" | "FALLS" | "FALLS_LATE" | undefined;

const reverseStreak = (turn: Turn, streak: CompiledStreak, { extended, longest, days }: Was): Fate => {
  const before = stateOf(streak, turn);
  const less = withoutEvent(streak, before, { turn, days });
  if (!less) return undefined;
  const { state, day } = less;
  const fate = fateOf(streak, before, { extended, less });
  if (fate === "FALLS" || fate === "FALLS_LATE")
    shorten(turn, streak, { state, longest, isGivenAgain: fate === "FALLS" });
  else storeStreak(turn, streak, state);
  return fate ?? (extended && day && isEnough(streak, day.states) ? "STAYS" : undefined);
};

const fateOf = (
  streak: CompiledStreak,
  before: Streak,
  { extended, less }: { extended: Extended | undefined; less: StreakWithoutEvent },
): Fate => {
  const { states, period, day } = less;
  if (isEnough(streak, states)) return undefined;
  if (extended) return isLatest(streak, before, extended) ? "FALLS" : undefined;
  // The event that has completed it falls with it where both are reverted together.
  return day && !day.isExtendedHere && before.doc.run?.last === period ? "FALLS_LATE" : undefined;
};

const isLatest = ({ definition }: CompiledStreak, { current, doc }: Streak, extended: Extended): boolean =>
  doc.run !== undefined &&
  current === extended.current &&
  periodName(definition.period, doc.run.last) === extended.period;

type StreakWithoutEvent = {
  state: Streak;
  period: number;
  states: readonly (AggregateState | null)[];
  /** The period without all events that are reverted together, where it is known. */
  day: StreakDay | undefined;
};

/** Returns the streak with its period's progress without the event; undefined where that is not known. */
const withoutEvent = (
  streak: CompiledStreak,
  state: Streak,
  { turn, days }: { turn: Turn; days: StreakDays | undefined },
): StreakWithoutEvent | undefined => {
  const { progress, zone } = state.doc;
  if (streak.definition.mode !== "PERIODIC" || !progress || zone === undefined) return undefined;
  const period = periodAt(streak.calendar, zone, turn.event.at);
  const day = days?.get(period);
  const isStored = progress.periods.some(([one]) => one === period);
  const states = day?.states ?? (isStored ? statesWithout(streak, state, { turn, period }) : undefined);
  if (!states) return undefined;
  const periods = progress.periods.map((entry) =>
    entry[0] === period ? ([period, states] as const) : entry,
  );
  return {
    states,
    period,
    day,
    state: { ...state, doc: { ...state.doc, progress: { ...progress, periods } } },
  };
};

/** Takes the event's samples from the stored progress; undefined where they cannot be subtracted. */
const statesWithout = (
  streak: CompiledStreak,
  { doc: { progress } }: Streak,
  { turn, period }: { turn: Turn; period: number },
): readonly (AggregateState | null)[] | undefined => {
  const states = [...statesOf(streak, progress, period)];
  for (const place of streak.impactOf(turn.event.type).parts) {
    const { metric } = streak.definition.qualify.parts[place]!;
    const sample = compileSample(metric)(turn);
    const old = states[place];
    if (sample === undefined || old === null || old === undefined) continue;
    if (!isSubtractable(metric.aggregate)) return undefined;
    states[place] = subtractSample(metric.aggregate, old, sample);
  }
  return states;
};

/** Returns the last completed period before the removed one. */
const doneBefore = ({ first, last, frozen }: Run): number => {
  let period = last - 1;
  while (period > first && frozen.includes(period)) period--;
  return period;
};

/** Removes the latest period of the current run. */
const shorten = (
  turn: Turn,
  streak: CompiledStreak,
  { state, longest, isGivenAgain }: { state: Streak; longest: number; isGivenAgain: boolean },
): void => {
  const { key } = streak.definition;
  const current = state.current - 1;
  const others = Math.max(current, longest, state.doc.lost?.length ?? 0);
  const next: Streak = {
    ...state,
    ...runBefore(streak, state, isGivenAgain),
    current,
    longest: state.longest === state.current ? others : state.longest,
    freezes: state.freezes - earnedBy(streak, state),
  };
  storeStreak(turn, streak, next);
  const { id: playerId, externalUserId } = turn.player;
  const field = `streaks.${key}`;
  turn.emit("player.updated", {
    playerId,
    externalUserId,
    changed: [field],
    before: { [field]: state.current },
    after: { [field]: current },
    cause: { kind: "REVERSAL", eventId: turn.event.id, refKey: key },
  });
};

const runBefore = (
  { calendar }: CompiledStreak,
  { current, doc }: Streak,
  isGivenAgain: boolean,
): Pick<Streak, "deadlineMs" | "doc"> => {
  const run = doc.run!;
  if (current === 1) return { deadlineMs: null, doc: without(doc, "run") };
  const last = doneBefore(run);
  const covered = Math.max(last, run.frozen.at(-1) ?? last);
  // Under another name, so that a milestone whose rewards are taken back gives them again when it is reached.
  const [name, times = "0"] = run.name.split("~") as [string, string?];
  const nextName = isGivenAgain ? `${name}~${Number(times) + 1}` : run.name;
  return {
    deadlineMs: deadlineAfter(calendar, doc.zone!, covered),
    doc: { ...doc, run: { ...run, last, name: nextName } },
  };
};

/** Returns the freeze earned by the run's length, if it can be determined: not at the maximum. */
const earnedBy = ({ definition: { freeze } }: CompiledStreak, { current, freezes }: Streak): number => {
  const every = freeze?.enabled ? freeze.autoEarnEvery : undefined;
  const isEarned = every !== undefined && current % every === 0;
  return isEarned && freezes > 0 && freezes < freeze!.max ? 1 : 0;
};

const STREAK_KEY = /^stk:([^:]+):/;

/** Returns the streak whose milestone a ledger, award or grant key belongs to. */
export const streakOfKey = (key: string): string | undefined => STREAK_KEY.exec(key)?.[1];
