import type { SentAction } from "../actions/action.ts";
import { addWindows, type Amount, WINDOWS_KEPT } from "../caps/cap.ts";
import type { Effects } from "../effects.ts";
import type { Limit, RuleDocument } from "../language/document.ts";
import type { SharedCounters, SharedKey } from "../shared-counters.ts";
import { type Turn, write } from "../turn.ts";
import { outboxRow } from "../../kernel/outbox.ts";
import { type CalendarProject, calendarOf, windowNumber, windowStart } from "../../kernel/zones.ts";

export type Refusal = {
  reason: "LIMIT_REACHED" | "COOLDOWN" | "BUDGET_EXHAUSTED";
  detail: string;
  /** When the rule may fire again, in ms. */
  nextEligibleMs?: number;
};

/** At most `max` firings in any span of `spanMs`. */
export type RollingLimit = { max: number; spanMs: number; reason: Refusal["reason"] };

/** `t`: firing times in ms, ascending; `f`: the latest firing time that was dropped from `t`. */
export type FiringTimes = { t?: number[]; f?: number };

export const LATE = "late: what happened in that window is no longer known";

/**
 * Checks whether the rule may fire at `at`, so that no half-open span of `spanMs` has more than `max`
 * firings. Events may be late, so spans that begin before `at` and spans that end after it both count.
 */
export const checkRolling = (
  { max, spanMs, reason }: RollingLimit,
  { t: times = [], f: dropped }: FiringTimes,
  at: number,
): Refusal | undefined => {
  if (dropped !== undefined && dropped > at - spanMs) return { reason, detail: LATE };
  const after = times.findIndex((time) => time > at);
  const position = after === -1 ? times.length : after;
  const all = times.toSpliced(position, 0, at);
  for (let start = Math.max(0, position - max); start <= position && start + max < all.length; start++) {
    if (all[start + max]! - all[start]! < spanMs) {
      return { reason, detail: `${max} in ${spanMs / 1_000} s`, nextEligibleMs: all[start]! + spanMs };
    }
  }
  return undefined;
};

/** Adds a firing; beyond `kept` times the earliest ones are dropped. */
export const keepTime = (state: FiringTimes, at: number, kept: number): void => {
  const times = [...(state.t ?? []), at].toSorted((a, b) => a - b);
  const dropped = times.splice(0, Math.max(0, times.length - kept)).at(-1);
  if (dropped !== undefined) state.f = Math.max(dropped, state.f ?? dropped);
  state.t = times;
};

/** Removes one firing at a time, if it is still kept. */
export const takeTime = (state: FiringTimes, at: number): void => {
  const place = state.t?.indexOf(at) ?? -1;
  if (place !== -1) state.t = state.t!.toSpliced(place, 1);
  if (state.t?.length === 0 && state.f === undefined) delete state.t;
};

const WINDOWS = ["d", "w", "m"] as const;

/**
 * Firings of a rule for one player, by kind of window so that the state survives edits of the rule: `n`
 * firings ever; `d`, `w`, `m` pairs of window number and firings, ascending.
 */
export type LimitState = FiringTimes & { n?: number } & {
  [Slot in (typeof WINDOWS)[number]]?: readonly Amount[];
};

/**
 * Merges what counted towards a rule's limits for two merged players: the firings of both, so that a merge
 * never lets a rule fire more often than for one player.
 */
export const mergeLimits = (mine: unknown, theirs: unknown): unknown => {
  if (mine === undefined || theirs === undefined) return mine ?? theirs;
  const [a, b] = [mine as LimitState, theirs as LimitState];
  return { ...b, ...a, ...mergeCounts(a, b), ...mergeTimes(a, b) };
};

const mergeCounts = (a: LimitState, b: LimitState): LimitState => {
  const merged: LimitState = {};
  if (a.n !== undefined && b.n !== undefined) merged.n = a.n + b.n;
  for (const name of WINDOWS) {
    const [mine, theirs] = [a[name], b[name]];
    if (mine && theirs) merged[name] = addWindows(mine, theirs);
  }
  return merged;
};

const mergeTimes = (a: LimitState, b: LimitState): LimitState => ({
  ...(a.t && b.t ? { t: [...a.t, ...b.t].toSorted((x, y) => x - y) } : {}),
  ...(a.f !== undefined && b.f !== undefined ? { f: Math.max(a.f, b.f) } : {}),
});

/** The project whose counters are used, and whose calendar they follow. */
export type SharedScope = { projectId: string } & CalendarProject;

/** One counter across all players. `keyOf` names the row that an event at `atMs` touches. */
export type SharedLimit = {
  keyOf(project: SharedScope, atMs: number): SharedKey;
  check(turn: Turn): Refusal | undefined;
  /** Adds a firing at the time of the turn's event, or removes it. */
  count(turn: Turn, firings: 1 | -1): void;
};

export type LimitWindow = Limit["window"];

/** Returns the name of a window in scopes and messages: `DAY`, or its seconds. */
const windowName = (window: LimitWindow): string =>
  typeof window === "string" ? window : `${window.rollingSeconds}s`;

/** Returns the row number for a moment: that of its calendar window in the project's zone, else 0. */
const rowNumber = (window: LimitWindow, project: SharedScope, atMs: number): number =>
  window === "LIFETIME" || typeof window !== "string" ? 0 : windowNumber(window, calendarOf(project), atMs);

/** Returns when the window after the one that contains `atMs` begins, if there is one. */
const nextWindow = (
  window: LimitWindow,
  project: SharedScope,
  atMs: number,
): Pick<Refusal, "nextEligibleMs"> => {
  if (window === "LIFETIME" || typeof window !== "string") return {};
  const calendar = calendarOf(project);
  return { nextEligibleMs: windowStart(window, calendar, windowNumber(window, calendar, atMs) + 1) };
};

/** Names the row of a counter. */
const rowOf =
  (scope: string, window: LimitWindow): SharedLimit["keyOf"] =>
  (project, atMs) => ({ projectId: project.projectId, scope, windowNo: rowNumber(window, project, atMs) });

/** Returns the smallest of those with equal names: they share a counter. */
const strictest = <L extends { max: number }>(limits: readonly L[], nameOf: (limit: L) => string): L[] => {
  const byName = new Map<string, L>();
  for (const limit of limits) {
    const name = nameOf(limit);
    const known = byName.get(name);
    if (!known || limit.max < known.max) byName.set(name, limit);
  }
  return [...byName.values()];
};

/** Compiles the limits across all players. @param prefix of the names of a rule's counters */
export const compileSharedLimits = (prefix: string, limits: RuleDocument["limits"]): SharedLimit[] =>
  strictest(limits?.global ?? [], ({ window }) => windowName(window)).map((limit) => {
    const scope = `${prefix}:g:${windowName(limit.window)}`;
    return typeof limit.window === "string" ? countingLimit(scope, limit) : rollingLimit(scope, limit);
  });

const countingLimit = (scope: string, { max, window }: Limit): SharedLimit => {
  const keyOf = rowOf(scope, window);
  return {
    keyOf,
    check: ({ shared, project, event }) => {
      if (shared.used(keyOf(project, event.at)) < max) return undefined;
      const detail = `${max} ${windowName(window)} of all players`;
      return { reason: "LIMIT_REACHED", detail, ...nextWindow(window, project, event.at) };
    },
    count: ({ shared, project, event }, firings) => shared.add(keyOf(project, event.at), firings),
  };
};

/** `times` of the row: the latest firing time that was dropped, or this, followed by the firing times. */
const NOTHING_DROPPED = Number.MIN_SAFE_INTEGER;

const firingsOf = ([dropped = NOTHING_DROPPED, ...t]: readonly number[]): FiringTimes =>
  dropped === NOTHING_DROPPED ? { t } : { t, f: dropped };

const rollingLimit = (scope: string, { max, window }: Limit): SharedLimit => {
  const spanMs = (window as { rollingSeconds: number }).rollingSeconds * 1_000;
  const keyOf = rowOf(scope, window);
  const limit = { max, spanMs, reason: "LIMIT_REACHED" } as const;
  return {
    keyOf,
    check: ({ shared, project, event }) => {
      const refusal = checkRolling(limit, firingsOf(shared.times(keyOf(project, event.at))), event.at);
      return refusal && { ...refusal, detail: `${refusal.detail} of all players` };
    },
    count: ({ shared, project, event }, firings) => {
      const key = keyOf(project, event.at);
      const state = firingsOf(shared.times(key));
      if (firings === 1) keepTime(state, event.at, Math.max(WINDOWS_KEPT, max));
      else takeTime(state, event.at);
      shared.setTimes(key, [state.f ?? NOTHING_DROPPED, ...(state.t ?? [])]);
    },
  };
};

type Budget = NonNullable<RuleDocument["limits"]>["budgets"][number];

/** The position in the effects where a firing begins. */
type Mark = { outbox: number; ledger: number; rewardGrants: number; spawned: number; scores: number };

export const markOf = ({ outbox, ledger, rewardGrants, spawned, scores }: Effects): Mark => ({
  outbox: outbox.length,
  ledger: ledger.length,
  rewardGrants: rewardGrants.length,
  spawned: spawned.length,
  scores: scores.length,
});

/** A maximum that a rule may give to all players in a window. */
export type CompiledBudget = {
  /** `xp`, `currency:{key}` or `reward:{key}`. */
  asset: string;
  keyOf(project: SharedScope, atMs: number): SharedKey;
  /** Returns the amount of the asset granted by the effects since `mark`. */
  given(effects: Effects, mark: Mark): number;
  check(turn: Turn, amount: number): Refusal | undefined;
  /** Adds an amount at the time of the turn's event; a negative one is refunded. */
  add(turn: Turn, amount: number): void;
  /** Reports, once per window, that a firing was refused. */
  reportRefusal(turn: Turn, rule: { id: string; key: string }): void;
};

/** Compiles a rule's budgets. @param prefix of the names of its counters */
export const compileBudgets = (prefix: string, limits: RuleDocument["limits"]): CompiledBudget[] =>
  strictest(limits?.budgets ?? [], ({ asset, window }) => `${asset} ${windowName(window)}`).map((budget) =>
    compileBudget(prefix, budget),
  );

const compileBudget = (prefix: string, { asset, max, window }: Budget): CompiledBudget => {
  const scope = `${prefix}:b:${asset}:${windowName(window)}`;
  const keyOf = rowOf(scope, window);
  const book = typeof window === "string" ? countingUsage : rollingUsage(window.rollingSeconds * 1_000);
  return {
    asset,
    keyOf,
    given: measureOf(asset),
    check: ({ shared, project, event }, amount) => {
      if (amount === 0) return undefined;
      const used = book.used(shared, keyOf(project, event.at), event.at);
      if (used !== undefined && used + amount <= max) return undefined;
      const detail = used === undefined ? LATE : `${used} of ${max} ${asset} given, ${windowName(window)}`;
      return { reason: "BUDGET_EXHAUSTED", detail, ...nextWindow(window, project, event.at) };
    },
    add: ({ shared, project, event }, amount) => {
      if (amount !== 0) book.add(shared, keyOf(project, event.at), { atMs: event.at, amount });
    },
    reportRefusal: (turn, rule) => {
      const { shared, project, event } = turn;
      if (!book.mayTell(shared, keyOf(project, event.at), event.at)) return;
      const data = { ruleKey: rule.key, ruleId: rule.id, asset, max, window: windowName(window) };
      write(turn, "outbox", outboxRow(project.projectId, "rule.budget_exhausted", data));
    },
  };
};

type Measure = CompiledBudget["given"];

/**
 * Measures what was gained while the rule's actions ran, including everything they triggered: gains only.
 * Actions sent to another player or a later time count as resolved, before boosts.
 */
const measureOf = (asset: string): Measure => {
  const [kind, key] = asset.split(":") as [string, string?];
  if (kind === "reward")
    return (effects, mark) => rewardsOf(effects, mark, key!) + sentOf(effects, mark, key!);
  const ledgerAsset = kind === "xp" ? "XP" : "CURRENCY";
  return ({ ledger, spawned }, mark) => {
    let sum = 0;
    for (const row of ledger.slice(mark.ledger))
      if (row.asset === ledgerAsset && row.currencyKey === (key ?? null) && row.amount > 0) sum += row.amount;
    for (const { properties } of spawned.slice(mark.spawned)) sum += gainOf(properties as SentAction, asset);
    return sum;
  };
};

const rewardsOf = ({ rewardGrants }: Effects, mark: Mark, rewardKey: string): number =>
  rewardGrants
    .slice(mark.rewardGrants)
    .reduce((sum, grant) => sum + (grant.rewardKey === rewardKey ? grant.quantity : 0), 0);

const sentOf = ({ spawned }: Effects, mark: Mark, rewardKey: string): number =>
  spawned.slice(mark.spawned).reduce((sum, { properties }) => {
    const { action } = properties as SentAction;
    const isIt = action.type === "grant_reward" && action["rewardKey"] === rewardKey;
    return sum + (isIt ? Number(action["quantity"]) : 0);
  }, 0);

const gainOf = ({ action }: SentAction, asset: string): number => {
  const isIt =
    asset === "xp"
      ? action.type === "grant_xp"
      : action.type === "adjust_currency" && `currency:${String(action["currencyKey"])}` === asset;
  return isIt ? Math.max(0, Number(action["amount"])) : 0;
};

/** How a row records grants. `times[0]` is when exhaustion was last reported. */
type UsageStore = {
  /** Undefined when it is no longer known. */
  used(shared: SharedCounters, key: SharedKey, atMs: number): number | undefined;
  add(shared: SharedCounters, key: SharedKey, gift: { atMs: number; amount: number }): void;
  mayTell(shared: SharedCounters, key: SharedKey, atMs: number): boolean;
};

const countingUsage: UsageStore = {
  used: (shared, key) => shared.used(key),
  add: (shared, key, { amount }) => shared.add(key, amount),
  mayTell: (shared, key, atMs) => {
    if (shared.times(key).length > 0) return false;
    shared.setTimes(key, [atMs]);
    return true;
  },
};

/** Buckets of a rolling span in which amounts are summed: budget is freed at most one bucket late. */
const BUCKETS = 60;
const NEVER_REPORTED = Number.MIN_SAFE_INTEGER;

/** `times`: [reported, oldest known bucket, bucket, amount, bucket, amount, …], buckets ascending. */
const rollingUsage = (spanMs: number): UsageStore => {
  const bucketMs = Math.ceil(spanMs / BUCKETS);
  const read = (shared: SharedCounters, key: SharedKey) => {
    const [reportedMs = NEVER_REPORTED, oldest = Number.MIN_SAFE_INTEGER, ...pairs] = shared.times(key);
    return { reportedMs, oldest, pairs };
  };
  return {
    used: (shared, key, atMs) => {
      const { oldest, pairs } = read(shared, key);
      const bucket = Math.floor(atMs / bucketMs);
      // Sums everything less than a span before or after the event, since events may be late: rather too
      // much.
      if (bucket - BUCKETS < oldest) return undefined;
      let sum = 0;
      for (let i = 0; i < pairs.length; i += 2)
        if (Math.abs(pairs[i]! - bucket) <= BUCKETS) sum += pairs[i + 1]!;
      return sum;
    },
    add: (shared, key, { atMs, amount }) => {
      const { reportedMs, oldest, pairs } = read(shared, key);
      const sums = new Map<number, number>();
      for (let i = 0; i < pairs.length; i += 2) sums.set(pairs[i]!, pairs[i + 1]!);
      const bucket = Math.floor(atMs / bucketMs);
      sums.set(bucket, Math.max(0, (sums.get(bucket) ?? 0) + amount));
      const ascending = [...sums].toSorted(([a], [b]) => a - b);
      const dropped = ascending.splice(0, Math.max(0, ascending.length - 3 * BUCKETS)).at(-1);
      shared.setTimes(key, [reportedMs, dropped ? dropped[0] + 1 : oldest, ...ascending.flat()]);
    },
    mayTell: (shared, key, atMs) => {
      const { reportedMs, oldest, pairs } = read(shared, key);
      if (reportedMs !== NEVER_REPORTED && Math.abs(atMs - reportedMs) < spanMs) return false;
      shared.setTimes(key, [atMs, oldest, ...pairs]);
      return true;
    },
  };
};
