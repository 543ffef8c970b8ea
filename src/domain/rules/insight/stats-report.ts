import { sql } from "kysely";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { findRule } from "../rules.ts";
import {
  addCounts,
  type Counts,
  type Histogram,
  noCounts,
  percentile,
} from "../../evaluation/running/stats.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Default span in days, without a `from`. */
const DAYS_DEFAULT = 7;
/** Rows are stored per hour; this many days of them are added up for one response. */
export const STATS_DAYS_MAX = 92;

export const STATS_INTERVALS = ["HOUR", "DAY", "TOTAL"] as const;
export type StatsInterval = (typeof STATS_INTERVALS)[number];

/** Statistics of sampled events only: see settings.traceSampling. */
export type SampledStats = {
  /** Number of traced evaluations. */
  evaluations: number;
  /** Conditions because of which the rule did not match, by their path: a funnel. */
  failingConditions: Histogram;
  /** Median and 99th percentile of the evaluation time in microseconds, accurate to a fifth. */
  p50Micros: number | null;
  p99Micros: number | null;
};

export type StatsBucket = {
  from: string;
  to: string;
  evaluated: number;
  fired: number;
  reasons: Histogram;
  cost: Histogram;
  sampled: SampledStats;
};

export type RuleStatsReport = {
  ruleId: string;
  from: string;
  to: string;
  interval: StatsInterval;
  total: StatsBucket;
  /** Those with any data, oldest first; none for TOTAL. */
  buckets: StatsBucket[];
};

type Row = {
  hour: Date | string;
  evaluated: string | number;
  fired: string | number;
  reasons: Histogram;
  leaf_fails: Histogram;
  cost: Histogram;
  micros: Histogram;
};

const countsOf = (row: Row): Counts => ({
  evaluated: Number(row.evaluated),
  fired: Number(row.fired),
  reasons: row.reasons,
  leafFails: row.leaf_fails,
  cost: row.cost,
  micros: row.micros,
});

const show = (counts: Counts, fromMs: number, toMs: number): StatsBucket => ({
  from: new Date(fromMs).toISOString(),
  to: new Date(toMs).toISOString(),
  evaluated: counts.evaluated,
  fired: counts.fired,
  reasons: counts.reasons,
  cost: counts.cost,
  sampled: {
    evaluations: Object.values(counts.micros).reduce((sum, n) => sum + n, 0),
    failingConditions: counts.leafFails,
    p50Micros: percentile(counts.micros, 0.5),
    p99Micros: percentile(counts.micros, 0.99),
  },
});

export type StatsQuery = { from?: Date | undefined; to?: Date | undefined; interval: StatsInterval };

/** Returns the whole hours (UTC) that contain the span. @throws DomainError VALIDATION_ERROR */
const spanOf = ({ now }: Work, { from, to }: StatsQuery): { fromMs: number; toMs: number } => {
  const end = to?.getTime() ?? now.getTime();
  const start = from?.getTime() ?? end - DAYS_DEFAULT * DAY_MS;
  if (start >= end) throw invalid("from", "must be before `to`");
  if (end - start > STATS_DAYS_MAX * DAY_MS)
    throw invalid("from", `may be at most ${STATS_DAYS_MAX} days before \`to\``);
  return { fromMs: Math.floor(start / HOUR_MS) * HOUR_MS, toMs: Math.ceil(end / HOUR_MS) * HOUR_MS };
};

/**
 * Reports what a rule has done with its events, by the hour in which they were processed.
 * @throws DomainError NOT_FOUND, VALIDATION_ERROR
 */
export const reportStats = async (
  work: Work,
  projectId: string,
  ref: string,
  query: StatsQuery,
): Promise<RuleStatsReport> => {
  const rule = await findRule(work, projectId, ref);
  const { fromMs, toMs } = spanOf(work, query);
  const found = await sql<Row>`
    select * from rule_stats
    where project_id = ${projectId} and rule_id = ${rule.id}
      and hour >= ${new Date(fromMs).toISOString()}::timestamptz
      and hour < ${new Date(toMs).toISOString()}::timestamptz
    order by hour`.execute(work.db);
  const total = noCounts();
  const byStart = new Map<number, Counts>();
  const lengthMs = query.interval === "DAY" ? DAY_MS : HOUR_MS;
  for (const row of found.rows) {
    const counts = countsOf(row);
    addCounts(total, counts);
    const startMs = Math.floor(new Date(row.hour).getTime() / lengthMs) * lengthMs;
    const bucket = byStart.get(startMs) ?? noCounts();
    byStart.set(startMs, bucket);
    addCounts(bucket, counts);
  }
  const buckets = [...byStart].map(([startMs, counts]) => show(counts, startMs, startMs + lengthMs));
  return {
    ruleId: rule.id,
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    interval: query.interval,
    total: show(total, fromMs, toMs),
    buckets: query.interval === "TOTAL" ? [] : buckets,
  };
};
