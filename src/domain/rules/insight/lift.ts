import { z } from "zod";
import { sql } from "kysely";
import { addCounts, type Counts, Histogram, noCounts, percentile } from "../../evaluation/running/stats.ts";

import { type Interval, type Share, shareDifference } from "../../kernel/intervals.ts";
import type { Work } from "../../kernel/work.ts";
import { findRule } from "../rules.ts";
import { checkSpan, DAY_MS } from "./history.ts";

const HOUR_MS = 3_600_000;
/** Default span in days, without a `from`. */
const REPORT_DAYS_DEFAULT = 7;
/** Rows are stored per hour; this many days of them are added up for one response. */
export const STATS_DAYS_MAX = 92;

export const STATS_INTERVALS = ["HOUR", "DAY", "TOTAL"] as const;
type StatsInterval = (typeof STATS_INTERVALS)[number];

const StatsBucket = z
  .object({
    from: z.iso.datetime(),
    to: z.iso.datetime(),
    evaluated: z.int().meta({
      description:
        "Events that the rule was tested for; those that an indexed property rules out are not counted",
    }),
    fired: z.int(),
    reasons: Histogram.meta({ example: { MATCHED: 3, CONDITIONS_NOT_MET: 12 } }),
    cost: Histogram.meta({
      description: "Given by the rule, less what it took, by asset",
      example: { xp: 300, "currency:coins": 15 },
    }),
    sampled: z
      .object({
        evaluations: z.int(),
        failingConditions: Histogram.meta({
          description: "The condition because of which it did not match",
          example: { "conditions.all[0]": 9 },
        }),
        p50Micros: z.number().nullable(),
        p99Micros: z.number().nullable().meta({ description: "99 in 100 took at most so long; to a fifth" }),
      })
      .meta({ description: "Of sampled events only, see settings.traceSampling" }),
  })
  .meta({ id: "RuleStatsBucket" });
type StatsBucket = z.output<typeof StatsBucket>;

export const RuleStatsReport = z
  .object({
    ruleId: z.uuid(),
    from: z.iso.datetime(),
    to: z.iso.datetime(),
    interval: z.enum(STATS_INTERVALS),
    total: StatsBucket,
    buckets: z.array(StatsBucket).meta({ description: "Those with anything in them, oldest first" }),
  })
  .meta({ id: "RuleStats" });
export type RuleStatsReport = z.output<typeof RuleStatsReport>;

const show = ({ leafFails, micros, ...counts }: Counts, fromMs: number, toMs: number): StatsBucket => ({
  from: new Date(fromMs).toISOString(),
  to: new Date(toMs).toISOString(),
  ...counts,
  sampled: {
    evaluations: Object.values(micros).reduce((sum, n) => sum + n, 0),
    failingConditions: leafFails,
    p50Micros: percentile(micros, 0.5),
    p99Micros: percentile(micros, 0.99),
  },
});

type StatsQuery = { from?: Date | undefined; to?: Date | undefined; interval: StatsInterval };

/** Returns the whole hours (UTC) that contain the span. @throws DomainError VALIDATION_ERROR */
const spanOf = ({ now }: Work, { from, to }: StatsQuery): { fromMs: number; toMs: number } => {
  const end = to?.getTime() ?? now.getTime();
  const start = from?.getTime() ?? end - REPORT_DAYS_DEFAULT * DAY_MS;
  checkSpan(start, end, STATS_DAYS_MAX);
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
  const found = await sql<Counts & { hour: Date }>`
    select hour, evaluated, fired, reasons, leaf_fails as "leafFails", cost, micros from rule_stats
    where project_id = ${projectId} and rule_id = ${rule.id}
      and hour >= ${new Date(fromMs).toISOString()}::timestamptz
      and hour < ${new Date(toMs).toISOString()}::timestamptz
    order by hour`.execute(work.db);
  const total = noCounts();
  const byStart = new Map<number, Counts>();
  const lengthMs = query.interval === "DAY" ? DAY_MS : HOUR_MS;
  for (const row of found.rows) {
    addCounts(total, row);
    const startMs = Math.floor(row.hour.getTime() / lengthMs) * lengthMs;
    const bucket = byStart.get(startMs) ?? noCounts();
    byStart.set(startMs, bucket);
    addCounts(bucket, row);
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

/** Default span in days, without a `from`. */
const DAYS_DEFAULT = 30;
export const LIFT_DAYS_MAX = 92;
/** Maximum number of evaluated players per group; of more, a sample by a hash of their ids. */
const PLAYERS_MAX = 5_000;
/** Group size below which a difference is hardly significant. */
const SMALL_GROUP = 100;
/** Maximum number of counted events per player. */
const EVENTS_MAX = 1_000;

/** Players reached by the rule, from the first time on. */
const LiftGroup = z
  .object({
    players: z.int(),
    activeLater: z.int().meta({ description: "Players who sent another event at least a day later" }),
    activeLaterShare: z.number().nullable(),
    eventsPerPlayer: z.number().nullable().meta({ description: "Sent after, on average" }),
  })
  .meta({ id: "RuleLiftGroup" });
type LiftGroup = z.output<typeof LiftGroup>;

export const Lift = z
  .object({
    ruleId: z.uuid(),
    from: z.iso.datetime(),
    to: z.iso.datetime(),
    treated: LiftGroup,
    holdout: LiftGroup,
    activeLaterDifference: z
      .object({ value: z.number(), low: z.number(), high: z.number() })
      .nullable()
      .meta({ description: "Treated minus holdout, with its 95 % interval" }),
    eventsPerPlayerDifference: z.number().nullable(),
    notes: z.array(z.string()),
  })
  .meta({ id: "RuleLift" });
export type Lift = z.output<typeof Lift>;

type Row = { mode: "LIVE" | "HOLDOUT"; players: number; active: number; events: number | null };

const groupOf = (row: Row | undefined): LiftGroup => {
  const { players = 0, active: activeLater = 0 } = row ?? {};
  const share = (n: number): number | null => (players === 0 ? null : Math.round((n / players) * 1e4) / 1e4);
  return {
    players,
    activeLater,
    activeLaterShare: share(activeLater),
    eventsPerPlayer: share(row?.events ?? 0),
  };
};

/** Returns the difference of two shares and its interval, to four decimals; null where a group is empty. */
export const differenceOf = (a: Share, b: Share): Interval | null => {
  const found = shareDifference(a, b);
  const round = (x: number): number => Math.round(x * 1e4) / 1e4;
  return found ? { value: round(found.value), low: round(found.low), high: round(found.high) } : null;
};

const notesOf = (treated: LiftGroup, holdout: LiftGroup, hasHoldout: boolean): string[] => {
  const small = treated.players < SMALL_GROUP || holdout.players < SMALL_GROUP;
  const capped = [treated, holdout].some(({ players }) => players === PLAYERS_MAX);
  return [
    ...(hasHoldout || holdout.players > 0
      ? []
      : ["The rule holds nobody back (rollout.holdoutPercent): there is nothing to compare with."]),
    ...(small
      ? [`A group of fewer than ${SMALL_GROUP} players: the difference may well be chance; see low and high.`]
      : []),
    ...(capped ? [`Of a group of more than ${PLAYERS_MAX} players, ${PLAYERS_MAX} were looked at.`] : []),
    "Players count from their first time in the span; those of its last day cannot have come back yet.",
  ];
};

type LiftQuery = { from?: Date | undefined; to?: Date | undefined };

/**
 * Compares players who received a rule's effects with those who were randomly held out.
 * @throws DomainError NOT_FOUND, VALIDATION_ERROR
 */
export const reportLift = async (
  work: Work,
  projectId: string,
  ref: string,
  query: LiftQuery,
): Promise<Lift> => {
  const rule = await findRule(work, projectId, ref);
  const to = query.to ?? work.now;
  const from = query.from ?? new Date(to.getTime() - DAYS_DEFAULT * DAY_MS);
  checkSpan(from.getTime(), to.getTime(), LIFT_DAYS_MAX);
  const found = await compare(work, { projectId, ruleId: rule.id, from, to });
  const treated = groupOf(found.find(({ mode }) => mode === "LIVE"));
  const holdout = groupOf(found.find(({ mode }) => mode === "HOLDOUT"));
  const difference =
    treated.eventsPerPlayer === null || holdout.eventsPerPlayer === null
      ? null
      : Math.round((treated.eventsPerPlayer - holdout.eventsPerPlayer) * 1e4) / 1e4;
  return {
    ruleId: rule.id,
    from: from.toISOString(),
    to: to.toISOString(),
    treated,
    holdout,
    activeLaterDifference: differenceOf(
      { hits: treated.activeLater, n: treated.players },
      { hits: holdout.activeLater, n: holdout.players },
    ),
    eventsPerPlayerDifference: difference,
    notes: notesOf(treated, holdout, (rule.draft.rollout?.holdoutPercent ?? 0) > 0),
  };
};

/** A player in both groups, after a change of the rollout, counts for the first of them. */
const compare = async (
  { db }: Work,
  { projectId, ruleId, from, to }: { projectId: string; ruleId: string; from: Date; to: Date },
): Promise<Row[]> => {
  const [start, end] = [from.toISOString(), to.toISOString()];
  const found = await sql<Row>`
    with met as (
      select distinct on (player_id) player_id, mode, created_at as at
      from rule_executions
      where project_id = ${projectId} and rule_id = ${ruleId} and mode in ('LIVE', 'HOLDOUT')
        and created_at >= ${start}::timestamptz and created_at < ${end}::timestamptz
      order by player_id, created_at),
    numbered as (select *, row_number() over (partition by mode order by md5(player_id::text)) as n from met)
    select m.mode, count(*) as players, count(*) filter (where e.later) as active, sum(e.events) as events
    from numbered m
    join players p on p.project_id = ${projectId} and p.id = m.player_id
    cross join lateral (
      select count(*) as events, coalesce(bool_or(e.received_at >= m.at + interval '1 day'), false) as later
      from (
        select received_at from tracked_events e
        where e.project_id = ${projectId} and e.external_user_id = p.external_user_id
          and e.received_at > m.at and e.received_at < ${end}::timestamptz
          and e.event_type not like 'system.%'
        limit ${EVENTS_MAX}) e) e
    where m.n <= ${PLAYERS_MAX}
    group by m.mode`.execute(db);
  return found.rows;
};
