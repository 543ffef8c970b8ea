import { z } from "zod";
import type { Effects } from "../effects.ts";
import type { ObservedRule, RuleObserver, RuleReason } from "./outcome.ts";
import { type EventTrace, failingLeaf } from "../trace/trace.ts";

const HOUR_MS = 3_600_000;

/** Counts by name: reasons, paths of conditions, assets, time buckets. */
export const Histogram = z.record(z.string(), z.number());
export type Histogram = z.output<typeof Histogram>;

/** Counts of one rule in one hour. */
export type RuleCounts = Counts & { projectId: string; ruleId: string; hourMs: number };

/** Resolution of the time histogram: each bucket ends at 2^(1/4) times the one before. */
const BUCKETS_PER_DOUBLING = 4;

/** Returns the bucket of a time in microseconds; 0 holds everything below one. */
export const bucketOf = (micros: number): number =>
  micros < 1 ? 0 : 1 + Math.floor(Math.log2(micros) * BUCKETS_PER_DOUBLING);

/** Returns the upper end of a bucket, in microseconds. */
export const bucketEnd = (bucket: number): number => 2 ** (bucket / BUCKETS_PER_DOUBLING);

/** Returns the upper end of the bucket that contains percentile `p`; null for an empty histogram. */
export const percentile = (histogram: Histogram, p: number): number | null => {
  const buckets = Object.entries(histogram)
    .map(([bucket, n]) => [Number(bucket), n] as const)
    .toSorted(([a], [b]) => a - b);
  const total = buckets.reduce((sum, [, n]) => sum + n, 0);
  let seen = 0;
  for (const [bucket, n] of buckets) {
    seen += n;
    if (seen >= p * total) return Math.round(bucketEnd(bucket) * 10) / 10;
  }
  return null;
};

export const add = (histogram: Histogram, name: string, n: number): void => {
  histogram[name] = (histogram[name] ?? 0) + n;
};

export const addAll = (into: Histogram, from: Histogram): void => {
  for (const [name, n] of Object.entries(from)) add(into, name, n);
};

type Tally = Partial<Record<RuleReason, number>>;

type ProjectTally = { tallies: Map<ObservedRule, Tally>; observer: RuleObserver };

const tallyProject = (): ProjectTally => {
  const tallies = new Map<ObservedRule, Tally>();
  const observer: RuleObserver = (rule, { reason }) => {
    let tally = tallies.get(rule);
    if (!tally) tallies.set(rule, (tally = {}));
    tally[reason] = (tally[reason] ?? 0) + 1;
  };
  return { tallies, observer };
};

/** Keeps the counts of a worker process that have not been written yet. */
export const createStatsRecorder = () => {
  let kept = new Map<string, RuleCounts>();
  const countsOf = (projectId: string, ruleId: string, hourMs: number): RuleCounts => {
    const id = `${projectId}${ruleId}${hourMs}`;
    const known = kept.get(id) ?? { projectId, ruleId, hourMs, ...noCounts() };
    kept.set(id, known);
    return known;
  };
  return {
    /** Collects the statistics of one batch. `commit` counts them; a batch that is rolled back never commits. */
    openBatch: () => {
      const projects = new Map<string, ProjectTally>();
      return {
        observerOf: (projectId: string): RuleObserver => {
          let project = projects.get(projectId);
          if (!project) projects.set(projectId, (project = tallyProject()));
          return project.observer;
        },
        commit: (effects: Effects, nowMs: number): void => {
          const hourMs = nowMs - (nowMs % HOUR_MS);
          for (const [projectId, { tallies }] of projects)
            for (const [rule, tally] of tallies) addTally(countsOf(projectId, rule.id, hourMs), tally);
          addCosts(effects, (projectId, ruleId) => countsOf(projectId, ruleId, hourMs));
          for (const { projectId, trace } of effects.traces)
            addTrace(trace as EventTrace, (ruleId) => countsOf(projectId, ruleId, hourMs));
        },
      };
    },
    /** Returns the counts and resets them. */
    take: (): RuleCounts[] => {
      const taken = [...kept.values()];
      kept = new Map();
      return taken;
    },
    /** Restores counts that could not be written. */
    restore: (counts: readonly RuleCounts[]): void => {
      for (const one of counts) addCounts(countsOf(one.projectId, one.ruleId, one.hourMs), one);
    },
  };
};

export type StatsRecorder = ReturnType<typeof createStatsRecorder>;

export const noCounts = () => ({
  evaluated: 0,
  fired: 0,
  reasons: {} as Histogram,
  /** Of sampled events only: the condition because of which the rule did not match. */
  leafFails: {} as Histogram,
  /** Granted by the rule: `xp`, `currency:{key}`, `lives`; amounts taken count negative. */
  cost: {} as Histogram,
  /** Of sampled events only: evaluations by `bucketOf` their time. */
  micros: {} as Histogram,
});

export type Counts = ReturnType<typeof noCounts>;

export const addCounts = (into: Counts, from: Counts): void => {
  into.evaluated += from.evaluated;
  into.fired += from.fired;
  addAll(into.reasons, from.reasons);
  addAll(into.leafFails, from.leafFails);
  addAll(into.cost, from.cost);
  addAll(into.micros, from.micros);
};

const addTally = (counts: Counts, tally: Tally): void => {
  for (const [reason, n] of Object.entries(tally)) {
    counts.evaluated += n;
    add(counts.reasons, reason, n);
  }
  counts.fired += tally.MATCHED ?? 0;
};

/** Adds what rules have given and taken, by the ledger: after boosts and caps. */
const addCosts = ({ ledger }: Effects, countsOf: (projectId: string, ruleId: string) => Counts): void => {
  for (const { projectId, cause, asset, currencyKey, amount } of ledger) {
    if (cause.kind !== "RULE" || cause.ruleId === undefined) continue;
    add(countsOf(projectId, cause.ruleId).cost, assetName(asset, currencyKey), amount);
  }
};

/** Returns the asset of a line of the ledger: `xp`, `lives` or `currency:{key}`. */
export const assetName = (asset: "XP" | "CURRENCY" | "LIVES", currencyKey: string | null): string =>
  asset === "CURRENCY" ? `currency:${currencyKey}` : asset.toLowerCase();

const addTrace = ({ rules, derived }: EventTrace, countsOf: (ruleId: string) => Counts): void => {
  for (const { ruleId, conditions, reason, micros } of rules) {
    if (!conditions || reason === "STOPPED") continue;
    const counts = countsOf(ruleId);
    add(counts.micros, String(bucketOf(micros)), 1);
    const leaf = reason === "CONDITIONS_NOT_MET" ? failingLeaf(conditions) : undefined;
    if (leaf !== undefined) add(counts.leafFails, leaf, 1);
  }
  for (const event of derived) addTrace(event, countsOf);
};
