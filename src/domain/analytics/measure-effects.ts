import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import { bucketOf, dayBuckets } from "./buckets.ts";
import { type Effect, EFFECTS, effectsOf, GAINS } from "./effects.ts";
import { instant } from "./events.ts";
import { withIndexes } from "./indexes.ts";
import { daysOf, type Frame, type Range, untilAsOf } from "./range.ts";
import { type GainSum, sumRolledGains } from "./rollups/rolled-gains.ts";

/** What happened in a range besides events. Series have a value for each of its local days. */
export type EffectSums = {
  sums: Record<Effect, number>;
  daily: Record<Effect, number[]>;
  /** Of currencyGranted, by key of the currency. */
  currencies: Record<string, number>;
  /** Players who sent messages. */
  senders: number;
};

type Row = { metric: Effect; d: number | null; key: string | null; amount: number; players: string };

const byEffect = <T>(make: () => T): Record<Effect, T> =>
  Object.fromEntries(EFFECTS.map((effect) => [effect, make()])) as Record<Effect, T>;

/**
 * Gains by bucket from rollups, where there are such, and what is left to be read from where it is stored.
 * @param startsMs of buckets, the first of which may begin before the range
 */
export const sumGains = async (
  work: Work,
  frame: Frame,
  { startsMs, startMs, endMs }: { startsMs: readonly number[]; startMs: number; endMs: number },
): Promise<{ gains: GainSum[]; others: readonly Effect[] }> => {
  const cutsMs = startsMs.map((ms, i) => (i === 0 ? Math.max(ms, startMs) : ms));
  const gains = await sumRolledGains(work, frame, { cutsMs, untilMs: endMs });
  const others = EFFECTS.filter((effect) => !(GAINS as readonly Effect[]).includes(effect));
  return gains ? { gains, others } : { gains: [], others: EFFECTS };
};

/** Measures what happened in a range. */
export const measureEffects = async (work: Work, frame: Frame, range: Range): Promise<EffectSums> => {
  const { startMs, endMs } = untilAsOf(frame, range);
  const days = dayBuckets(frame, range.firstDay, range.lastDay);
  const { gains, others } = await sumGains(work, frame, { startsMs: days.startsMs, startMs, endMs });
  const effects = effectsOf(frame, others, { fromMs: startMs, untilMs: endMs });
  const day = bucketOf(days, sql`at`);
  const query = sql<Row>`
    select metric, d, key, sum(amount) as amount, count(distinct player_id) as players
    from (select metric, key, player_id, amount, ${day} as d from (${effects}) x) e
    group by grouping sets ((metric, d), (metric, key))
    having key is null or metric in ('currencyGranted', 'messages')`;
  const { rows } = await withIndexes(work, () => query.execute(work.db));
  const measured: EffectSums = {
    sums: byEffect(() => 0),
    daily: byEffect(() => Array.from({ length: daysOf(range) }, () => 0)),
    currencies: {},
    senders: 0,
  };
  for (const { metric, d, key, amount, players } of rows) {
    if (d !== null) {
      measured.sums[metric] += amount;
      measured.daily[metric][d] = amount;
    } else if (metric === "currencyGranted") measured.currencies[key!] = amount;
    else measured.senders = Number(players);
  }
  for (const { metric, key, sums } of gains) {
    const total = sums.reduce((sum, amount) => sum + amount, 0);
    measured.sums[metric] += total;
    for (const [d, amount] of sums.entries()) measured.daily[metric][d]! += amount;
    if (metric === "currencyGranted" && total !== 0) measured.currencies[key] = total;
  }
  return measured;
};

/** Counts the quests that were started in a range, and how many of those were completed by `asOf`. */
export const countCompletions = async (
  { db }: Work,
  frame: Frame,
  range: Range,
): Promise<{ started: number; completed: number }> => {
  const { startMs, endMs } = untilAsOf(frame, range);
  const { rows } = await sql<{ started: string; completed: string }>`
    select count(*) as started, count(*) filter (where completed_at < ${instant(frame.asOfMs)}) as completed
    from player_quests where project_id = ${frame.projectId}::uuid
      and started_at >= ${instant(startMs)} and started_at < ${instant(endMs)}`.execute(db);
  return { started: Number(rows[0]!.started), completed: Number(rows[0]!.completed) };
};
