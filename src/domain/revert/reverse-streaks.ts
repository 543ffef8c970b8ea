import { isSubtractable, subtractSample, type AggregateState } from "../evaluation/metrics/aggregates.ts";
import { compileSample } from "../evaluation/metrics/compile.ts";
import type { Turn } from "../evaluation/turn.ts";
import { storeStreak } from "../evaluation/streaks/announce.ts";
import { stateOf } from "../evaluation/streaks/advance.ts";
import type { CompiledStreak } from "../evaluation/streaks/compile.ts";
import { deadlineAfter, periodAt, periodName } from "../evaluation/streaks/periods.ts";
import { isEnough, statesOf } from "../evaluation/streaks/progress.ts";
import { type Run, type Streak, without } from "../evaluation/streaks/state.ts";
import type { CausedEvent, PlayerRecord, Reversal } from "./record.ts";

type Extended = { streakKey: string; current: number; period: string; milestone: number | null };

const extensionsOf = (emitted: readonly CausedEvent[]): Extended[] =>
  emitted.filter(({ type }) => type === "player.streak_extended").map(({ data }) => data as Extended);

/**
 * Removes the event from the streaks that counted it, and a period that it alone has completed, if that is
 * the latest one of the run. Its other effects on streaks remain, and are reported.
 * @returns keys of the streaks that lost a period, whose rewards for that length are taken back too
 */
export const reverseStreaks = (
  turn: Turn,
  { event, emitted, longestRuns }: PlayerRecord,
  reversal: Reversal,
): ReadonlySet<string> => {
  const shortened = new Set<string>();
  const extensions = new Map(extensionsOf(emitted).map((one) => [one.streakKey, one]));
  for (const streak of turn.project.streaks.values()) {
    const { key } = streak.definition;
    const extended = extensions.get(key);
    if (!extended && !streak.listensTo(event.type)) continue;
    const isShorter = reverseStreak(turn, streak, { extended, longest: longestRuns.get(key) ?? 0 });
    if (isShorter) shortened.add(key);
    else if (extended) reversal.left.add(`streak ${key}: the period that it extended`);
  }
  for (const key of shortened) reversal.streaks.add(key);
  return shortened;
};

type Was = { extended: Extended | undefined; longest: number };

/** @returns whether a period was removed */
const reverseStreak = (turn: Turn, streak: CompiledStreak, { extended, longest }: Was): boolean => {
  const before = stateOf(streak, turn);
  const less = withoutEvent(streak, before, turn);
  if (!less) return false;
  const isShorter = extended && isLatest(streak, before, extended) && !isEnough(streak, less.states);
  if (isShorter) shorten(turn, streak, { state: less.state, longest });
  else storeStreak(turn, streak, less.state);
  return isShorter === true;
};

const isLatest = ({ definition }: CompiledStreak, { current, doc }: Streak, extended: Extended): boolean =>
  doc.run !== undefined &&
  current === extended.current &&
  periodName(definition.period, doc.run.last) === extended.period;

type StreakWithoutEvent = { state: Streak; states: readonly (AggregateState | null)[] };

/** Returns the streak with its period's progress without the event; undefined where that is not known. */
const withoutEvent = (streak: CompiledStreak, state: Streak, turn: Turn): StreakWithoutEvent | undefined => {
  const { event } = turn;
  const { progress, zone } = state.doc;
  if (streak.definition.mode !== "PERIODIC" || !progress || zone === undefined) return undefined;
  const period = periodAt(streak.calendar, zone, event.at);
  if (!progress.periods.some(([one]) => one === period)) return undefined;
  const states = [...statesOf(streak, progress, period)];
  for (const place of streak.impactOf(event.type).parts) {
    const { metric } = streak.definition.qualify.parts[place]!;
    const sample = compileSample(metric)(turn);
    const old = states[place];
    if (sample === undefined || old === null || old === undefined) continue;
    if (!isSubtractable(metric.aggregate)) return undefined;
    states[place] = subtractSample(metric.aggregate, old, sample);
  }
  const periods = progress.periods.map((entry) =>
    entry[0] === period ? ([period, states] as const) : entry,
  );
  return { states, state: { ...state, doc: { ...state.doc, progress: { ...progress, periods } } } };
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
  { state, longest }: { state: Streak; longest: number },
): void => {
  const { key } = streak.definition;
  const current = state.current - 1;
  const others = Math.max(current, longest, state.doc.lost?.length ?? 0);
  const next: Streak = {
    ...state,
    ...runBefore(streak, state),
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
): Pick<Streak, "deadlineMs" | "doc"> => {
  const run = doc.run!;
  if (current === 1) return { deadlineMs: null, doc: without(doc, "run") };
  const last = doneBefore(run);
  const covered = Math.max(last, run.frozen.at(-1) ?? last);
  // Under another name, so that a milestone that is reached again gives its rewards again.
  const [name, times = "0"] = run.name.split("~") as [string, string?];
  return {
    deadlineMs: deadlineAfter(calendar, doc.zone!, covered),
    doc: { ...doc, run: { ...run, last, name: `${name}~${Number(times) + 1}` } },
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
