import { addToLots, BALANCE_MAX, expiryOf, takeFromLots } from "../evaluation/currencies/adjust.ts";
import type { LedgerRow } from "../evaluation/effects.ts";
import { appendLedger } from "../evaluation/ledger/append.ts";
import { adjustLives } from "../evaluation/lives/lives.ts";
import { type AggregateState, isSubtractable, subtractSample } from "../evaluation/metrics/aggregates.ts";
import { compileSample } from "../evaluation/metrics/compile.ts";
import { stateOf, storeStreak } from "../evaluation/streaks/advance.ts";
import {
  type CompiledStreak,
  isEnough,
  type Run,
  statesOf,
  type Streak,
  without,
} from "../evaluation/streaks/compile.ts";
import { deadlineAfter, periodAt, periodName } from "../evaluation/streaks/periods.ts";
import type { Turn } from "../evaluation/turn.ts";
import { levelOf } from "../evaluation/xp/levels.ts";
import { XP_MAX } from "../evaluation/xp/xp.ts";
import type { Steps } from "../kernel/slices.ts";
import { calendarOf, windowNumber } from "../kernel/zones.ts";
import {
  addTo,
  type CausedEvent,
  type CausedLine,
  type PlayerRecord,
  type Reversal,
  type StreakDay,
  type StreakDays,
} from "./record.ts";
import { coveredOf } from "../evaluation/streaks/settle.ts";

/** Latest first: amounts that an event gave and spent again are restored without a temporary shortfall. */
const backwards = (lines: readonly CausedLine[]): CausedLine[] => lines.toSorted((a, b) => b.seq - a.seq);

const append = (
  turn: Turn,
  { id, asset, currencyKey }: CausedLine,
  { amount, balanceAfter, reversal }: { amount: number; balanceAfter: number; reversal: Reversal },
): LedgerRow =>
  appendLedger(turn, {
    asset,
    ...(currencyKey === null ? {} : { currencyKey }),
    amount,
    balanceAfter,
    reason: reversal.reason,
    key: `rev:${id}`,
    cause: reversal.cause,
    reverses: id,
  });

/**
 * Reverts the XP of entries, each by an opposite entry; never below 0. The level follows where the project
 * lets levels fall. In pieces.
 */
export function* reverseXp(turn: Turn, lines: readonly CausedLine[], reversal: Reversal): Steps<void> {
  const { player, project } = turn;
  const before = { xp: player.xp, level: player.level };
  for (const line of backwards(lines)) {
    yield;
    const xp = Math.min(XP_MAX, Math.max(0, player.xp - line.amount));
    const change = xp - player.xp;
    const missing = Math.abs(line.amount) - Math.abs(change);
    addTo(reversal.shortfall, "xp", missing);
    if (line.amount > 0) addSpentGain(turn, null, missing);
    takeFromDay(turn, line);
    if (change === 0) continue;
    player.xp = xp;
    reversal.xp -= change;
    const entry = append(turn, line, { amount: change, balanceAfter: xp, reversal });
    if (change > 0) emitGain(turn, entry);
  }
  const reached = levelOf(project.curve, player.xp);
  player.level = project.settings.allowLevelDown ? reached : Math.max(player.level, reached);
  if (player.xp < before.xp) emitLoss(turn, before, reversal);
}

/** Notes a gain that cannot be taken back, so that boards of gains lose it all the same. */
const addSpentGain = ({ root }: Turn, key: string | null, amount: number): void => {
  if (amount === 0) return;
  root.spentGains ??= new Map();
  root.spentGains.set(key, (root.spentGains.get(key) ?? 0) + amount);
};

/** Reduces the day's sum for the soft cap, if the entry belongs to that day. */
const takeFromDay = ({ player, project, event }: Turn, { amount, cause }: CausedLine): void => {
  const { x } = player.doc;
  if (!x || cause.kind !== "RULE" || amount < 0) return;
  const dayNumber = windowNumber("DAY", calendarOf(project, player.timezone), event.at);
  if (dayNumber !== x[0]) return;
  player.doc = { ...player.doc, x: [x[0], Math.max(0, x[1] - amount)] };
  player.dirty.doc = true;
};

const emitGain = ({ player, emit }: Turn, { id: ledgerEntryId, amount, cause }: LedgerRow): void => {
  const { id: playerId, externalUserId, xp, level } = player;
  const granted = { amount, baseAmount: amount, boostFactor: 1, xp, level, ledgerEntryId, cause };
  emit("player.xp_granted", { playerId, externalUserId, ...granted });
};

const emitLoss = (
  { player, emit }: Turn,
  before: { xp: number; level: number },
  { cause }: Reversal,
): void => {
  const { id: playerId, externalUserId, xp, level } = player;
  const changed = level === before.level ? ["xp"] : ["xp", "level"];
  emit("player.updated", { playerId, externalUserId, changed, before, after: { xp, level }, cause });
};

/** Reverts currencies and lives of entries, each by an opposite entry; never held amounts. In pieces. */
export function* reverseHoldings(turn: Turn, lines: readonly CausedLine[], reversal: Reversal): Steps<void> {
  for (const line of backwards(lines)) {
    yield;
    if (line.asset === "CURRENCY") reverseCurrency(turn, line, reversal);
    if (line.asset === "LIVES") reverseLives(turn, line, reversal);
  }
}

const NOTHING = { balance: 0, held: 0, earned: 0, spent: 0 };

const reverseCurrency = (turn: Turn, line: CausedLine, reversal: Reversal): void => {
  const key = line.currencyKey!;
  const moved = line.amount > 0 ? takeGain(turn, key, line.amount) : putBack(turn, key, -line.amount);
  const missing = Math.abs(line.amount) - moved.amount;
  addTo(reversal.shortfall, `currency:${key}`, missing);
  if (line.amount > 0) addSpentGain(turn, key, missing);
  if (moved.amount === 0) return;
  const { balance } = turn.player.balances.get(key)!;
  const change = line.amount > 0 ? -moved.amount : moved.amount;
  addTo(reversal.currencies, key, -change);
  const entry = append(turn, line, { amount: change, balanceAfter: balance, reversal });
  emitCurrency(turn, { key, change, entry, expiresMs: moved.expiresMs }, reversal);
};

type Moved = { amount: number; expiresMs?: number | undefined };

/** Takes back a gain, as far as it is there and not held. */
const takeGain = ({ player }: Turn, key: string, amount: number): Moved => {
  const state = player.balances.get(key) ?? NOTHING;
  const { balance, held, earned } = state;
  const taken = Math.min(amount, balance - held);
  if (taken === 0) return { amount: 0 };
  player.balances.set(key, {
    ...state,
    balance: balance - taken,
    earned: Math.max(0, earned - taken),
  });
  player.dirty.balances.add(key);
  takeFromLots(player, key, taken);
  return { amount: taken };
};

/** Refunds spending, up to the limit; it gets a new expiry. */
const putBack = ({ player, project, nowMs }: Turn, key: string, amount: number): Moved => {
  const currency = project.currencies.get(key);
  const state = player.balances.get(key) ?? NOTHING;
  const { balance, spent } = state;
  const given = Math.max(0, Math.min(amount, (currency?.maxBalance ?? BALANCE_MAX) - balance));
  if (given === 0) return { amount: 0 };
  player.balances.set(key, { ...state, balance: balance + given, spent: Math.max(0, spent - given) });
  player.dirty.balances.add(key);
  const expiresMs = currency && expiryOf(currency, nowMs);
  if (expiresMs !== undefined) addToLots(player, key, [{ amount: given, expiresMs }]);
  return { amount: given, expiresMs };
};

type Changed = { key: string; change: number; entry: LedgerRow; expiresMs: number | undefined };

const emitCurrency = (
  { player, emit }: Turn,
  { key: currencyKey, change, entry, expiresMs }: Changed,
  { cause }: Reversal,
): void => {
  const { id: playerId, externalUserId } = player;
  const { balance } = player.balances.get(currencyKey)!;
  const common = { playerId, externalUserId, currencyKey, balance, ledgerEntryId: entry.id, cause };
  if (change < 0) emit("player.currency_spent", { ...common, amount: -change, reference: null });
  else {
    const expiresAt = expiresMs === undefined ? null : new Date(expiresMs).toISOString();
    emit("player.currency_granted", { ...common, amount: change, expiresAt });
  }
};

const reverseLives = (turn: Turn, line: CausedLine, reversal: Reversal): void => {
  const { cause, reason } = reversal;
  const change = {
    amount: -line.amount,
    onInsufficient: "CLAMP",
    cause,
    key: `rev:${line.id}`,
    reason,
  } as const;
  const { entry, problem } = adjustLives(turn, change);
  if (problem !== undefined) reversal.left.add("lives: the project has none any more");
  if (entry) entry.reverses = line.id;
  const moved = entry?.amount ?? 0;
  reversal.lives -= moved;
  if (problem === undefined) addTo(reversal.shortfall, "lives", Math.abs(line.amount) - Math.abs(moved));
};

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
  // Under another name, so that a milestone whose rewards are taken back gives them again when it is reached.
  const [name, times = "0"] = run.name.split("~") as [string, string?];
  const nextName = isGivenAgain ? `${name}~${Number(times) + 1}` : run.name;
  return {
    deadlineMs: deadlineAfter(calendar, doc.zone!, coveredOf({ ...run, last })),
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
