import type { CompiledStreak } from "./compile.ts";
import { earn } from "./extend.ts";
import { EARLY_MAX } from "./settle.ts";
import type { LostRun, Run, Settled, Step, Streak } from "./state.ts";

type Late = { run: Run; period: number };

/** Completes a period that a freeze has kept: the freeze is returned. */
export const fillFrozen = (streak: CompiledStreak, state: Streak, { run, period }: Late): Settled => {
  const max = streak.definition.freeze?.max ?? 0;
  const filled = { ...run, frozen: run.frozen.filter((one) => one !== period) };
  const held = { ...state, freezes: Math.min(max, state.freezes + 1), doc: { ...state.doc, run: filled } };
  return lengthen(streak, held, { run: filled, period, by: 1 });
};

/**
 * Adds a period that was completed before the current run, and those before it that waited for it. A gap uses
 * freezes as it would have done; where it stays, the period is remembered, and counts for the longest run.
 * @returns undefined where the period has counted before
 */
export const addEarlier = (streak: CompiledStreak, state: Streak, late: Late): Settled | undefined => {
  const { lost, early = [] } = state.doc;
  const isOfLost = lost !== undefined && late.period <= lost.last;
  if (early.includes(late.period)) return undefined;
  if (isOfLost && lost.first <= late.period) return fillLost(streak, state, { lost, period: late.period });
  const known = [...early, late.period].toSorted((a, b) => a - b);
  return isOfLost ? addToLost(state, lost, known) : addToRun(streak, state, { ...late, known });
};

const addToRun = (
  streak: CompiledStreak,
  state: Streak,
  { run, period, known }: Late & { known: readonly number[] },
): Settled => {
  const after = state.doc.lost?.last ?? -Infinity;
  const waiting = known.filter((one) => one < run.first && one > after);
  const { reached, missed } = reachBack(streak, state, { run, waiting });
  const left = known.filter((one) => !reached.includes(one));
  const frozen = [...missed.toReversed(), ...run.frozen];
  const joined = { ...run, first: reached.at(-1) ?? run.first, frozen };
  const next: Streak = {
    ...state,
    freezes: state.freezes - missed.length,
    longest: Math.max(state.longest, longestOf(left)),
    doc: { ...state.doc, run: joined, ...earlyOf(left) },
  };
  if (reached.length === 0) return { state: next, steps: [] };
  const steps = missed.map((one, i): Step => {
    const freezesLeft = state.freezes - i - 1;
    return { kind: "FROZEN", period: one, current: state.current, freezesLeft };
  });
  const longer = lengthen(streak, next, { run: joined, period, by: reached.length });
  return { state: longer.state, steps: [...steps, ...longer.steps] };
};

/** The waiting periods that a run reaches backwards, latest first, and those that freezes bridge on the way. */
const reachBack = (
  { definition: { freeze } }: CompiledStreak,
  { freezes }: Streak,
  { run, waiting }: { run: Run; waiting: readonly number[] },
): { reached: number[]; missed: number[] } => {
  const room = freeze?.enabled === true && freeze.autoUse ? freezes : 0;
  const [reached, missed]: [number[], number[]] = [[], []];
  let { first } = run;
  for (const next of waiting.toReversed()) {
    if (missed.length + first - next - 1 > room) break;
    for (let period = first - 1; period > next; period--) missed.push(period);
    reached.push(next);
    first = next;
  }
  return { reached, missed };
};

const earlyOf = (early: readonly number[]): { early: readonly number[] } => ({
  early: early.slice(-EARLY_MAX),
});

/** Completes a period that a freeze had kept in the run before. */
const fillLost = (
  { definition: { freeze } }: CompiledStreak,
  state: Streak,
  { lost, period }: { lost: LostRun; period: number },
): Settled | undefined => {
  if (!lost.frozen.includes(period)) return undefined;
  const length = lost.length + 1;
  const filled = { ...lost, length, frozen: lost.frozen.filter((one) => one !== period) };
  const freezes = Math.min(freeze?.max ?? 0, state.freezes + 1);
  const longest = Math.max(state.longest, length);
  return { state: { ...state, freezes, longest, doc: { ...state.doc, lost: filled } }, steps: [] };
};

const addToLost = (state: Streak, lost: LostRun, known: readonly number[]): Settled => {
  const early = [...known];
  let { first, length } = lost;
  for (let at = early.indexOf(first - 1); at >= 0; at = early.indexOf(first - 1)) {
    early.splice(at, 1);
    first--;
    length++;
  }
  const longest = Math.max(state.longest, length, longestOf(early));
  return {
    state: { ...state, longest, doc: { ...state.doc, lost: { ...lost, first, length }, ...earlyOf(early) } },
    steps: [],
  };
};

/** The longest row of neighbours. */
const longestOf = (ascending: readonly number[]): number => {
  let [longest, length] = [0, 0];
  ascending.forEach((one, i) => {
    length = i > 0 && one === ascending[i - 1]! + 1 ? length + 1 : 1;
    longest = Math.max(longest, length);
  });
  return longest;
};

const lengthen = (
  streak: CompiledStreak,
  state: Streak,
  { run, period, by }: Late & { by: number },
): Settled => {
  const current = state.current + by;
  const longest = Math.max(state.longest, current);
  let { freezes } = state;
  for (let length = state.current + 1; length <= current; length++) freezes = earn(streak, freezes, length);
  const steps: Step[] = [
    { kind: "EXTENDED", period, current, longest, deadlineMs: state.deadlineMs },
    // Under the name that the run has: what its length has given before is not given again.
    { kind: "REACHED", name: run.name, from: state.current + 1, to: current },
  ];
  return { state: { ...state, current, longest, freezes }, steps };
};
