import { write } from "../event-steps.ts";
import type { SharedCounters, SharedKey } from "../shared-counters.ts";
import type { Effects } from "../effects.ts";
import type { Turn } from "../turn.ts";
import { outboxRow } from "../../kernel/outbox-row.ts";
import type { SentAction } from "../actions/send.ts";
import type { RuleDocument } from "../language/document.ts";
import { LATE, type Refusal } from "./rolling.ts";
import { nextWindowMs, rowNumber, type SharedScope, windowName } from "./shared-limits.ts";

export type Budget = NonNullable<RuleDocument["limits"]>["budgets"][number];

/** The position in the effects where a firing begins. */
export type Mark = { outbox: number; ledger: number; rewardGrants: number; spawned: number; scores: number };

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
  record(turn: Turn, amount: number): void;
  /** Refunds an amount at the time of the turn's event. */
  refund(turn: Turn, amount: number): void;
  /** Reports, once per window, that a firing was refused. */
  reportRefusal(turn: Turn, rule: { id: string; key: string }): void;
};

/** Compiles a rule's budgets. @param prefix of the names of its counters */
export const compileBudgets = (prefix: string, limits: RuleDocument["limits"]): CompiledBudget[] =>
  strictest(limits?.budgets ?? []).map((budget) => compileBudget(prefix, budget));

/** Returns the smallest of the budgets of one asset on equal windows: they share a counter. */
const strictest = (budgets: readonly Budget[]): Budget[] => {
  const byName = new Map<string, Budget>();
  for (const budget of budgets) {
    const name = `${budget.asset} ${windowName(budget.window)}`;
    const known = byName.get(name);
    if (!known || budget.max < known.max) byName.set(name, budget);
  }
  return [...byName.values()];
};

const compileBudget = (prefix: string, { asset, max, window }: Budget): CompiledBudget => {
  const scope = `${prefix}:b:${asset}:${windowName(window)}`;
  const keyOf: CompiledBudget["keyOf"] = (project, atMs) => ({
    projectId: project.projectId,
    scope,
    windowNo: rowNumber(window, project, atMs),
  });
  const book = typeof window === "string" ? countingUsage : rollingUsage(window.rollingSeconds * 1_000);
  return {
    asset,
    keyOf,
    given: measureOf(asset),
    check: ({ shared, project, event }, amount) => {
      if (amount === 0) return undefined;
      const used = book.used(shared, keyOf(project, event.at), event.at);
      if (used !== undefined && used + amount <= max) return undefined;
      const nextEligibleMs = nextWindowMs(window, project, event.at);
      const detail = used === undefined ? LATE : `${used} of ${max} ${asset} given, ${windowName(window)}`;
      const next = nextEligibleMs === undefined ? {} : { nextEligibleMs };
      return { reason: "BUDGET_EXHAUSTED", detail, ...next };
    },
    record: ({ shared, project, event }, amount) => {
      if (amount > 0) book.add(shared, keyOf(project, event.at), { atMs: event.at, amount });
    },
    refund: ({ shared, project, event }, amount) => {
      if (amount > 0) book.add(shared, keyOf(project, event.at), { atMs: event.at, amount: -amount });
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
