import { type RawBuilder, sql } from "kysely";
import { invalid } from "../../kernel/errors.ts";
import type { Asked } from "../ask.ts";
import { bucketOf, dayBuckets } from "../buckets.ts";
import { dayStart } from "../calendar.ts";
import { type Effect, effectsOf } from "../effects.ts";
import { type EventSelection, eventsOf, instant } from "../events.ts";
import { MONTH_DAYS, WEEK_DAYS } from "../measure-players.ts";
import type { MetricName } from "../metrics.ts";
import { propertyNumber } from "../properties.ts";
import { daysOf, type Frame, type Range } from "../range.ts";
import type { TrendMetric } from "../trend-query.ts";

/** `share`: each player counts or does not. `mean`: each has a number. */
export type Kind = "share" | "mean";

/**
 * How a metric is measured of one player: `of` has the columns player_id and v, a row for each player who has
 * any; `value` reads v and `f.first_at`, the time of the first event. Null: the player is not in the mean.
 */
export type PlayerValue = {
  kind: Kind;
  of: RawBuilder<unknown>;
  value: (v: RawBuilder<unknown>) => RawBuilder<unknown>;
};

type Parts = { frame: Frame; range: Range };

const hasAny = (v: RawBuilder<unknown>) => sql`(${v} is not null)::int`;
const orZero = (v: RawBuilder<unknown>) => sql`coalesce(${v}, 0)`;

const ofEvents = (
  { frame, range }: Parts,
  selection: EventSelection = {},
  aggregate: RawBuilder<unknown> = sql`count(*)`,
): RawBuilder<unknown> => {
  const { startMs, endMs } = range;
  return sql`select e.player_id, ${aggregate} as v
    from (${eventsOf(frame, { fromMs: startMs, untilMs: endMs, ...selection })}) e group by 1`;
};

const ofEffect = ({ frame, range }: Parts, effect: Effect, key?: string): RawBuilder<unknown> => sql`
  select x.player_id, sum(x.amount) as v
  from (${effectsOf(frame, [effect], { fromMs: range.startMs, untilMs: range.endMs })}) x
  where x.player_id is not null ${key === undefined ? sql`` : sql`and x.key = ${key}`} group by 1`;

/** The days on which a player was active, of those that end with the range. */
const activeDays = (parts: Parts, days: number): RawBuilder<unknown> => {
  const { frame, range } = parts;
  const firstDay = range.lastDay - days + 1;
  const buckets = dayBuckets(frame, firstDay, range.lastDay);
  const fromMs = days === daysOf(range) ? range.startMs : buckets.startsMs[0]!;
  return ofEvents(parts, { fromMs }, sql`count(distinct ${bucketOf(buckets, sql`e.at`)})`);
};

const since = ({ frame, range }: Parts, days: number): EventSelection => ({
  fromMs: dayStart(frame.timezone, range.lastDay - days + 1),
});

type Make = (parts: Parts) => PlayerValue;

const share =
  (of: (parts: Parts) => RawBuilder<unknown>): Make =>
  (parts) => ({ kind: "share", of: of(parts), value: hasAny });
const effect =
  (name: Effect): Make =>
  (parts) => ({ kind: "mean", of: ofEffect(parts, name), value: orZero });

/** Metrics that are of players. Others, such as the success of webhooks, are of nobody's group. */
const OF_PLAYERS: Readonly<Partial<Record<MetricName, Make>>> = {
  activePlayers: share((parts) => ofEvents(parts)),
  newPlayers: (parts) => ({
    kind: "share",
    of: ofEvents(parts),
    value: () => sql`(f.first_at >= ${instant(parts.range.startMs)})::int`,
  }),
  returningPlayers: (parts) => ({
    kind: "share",
    of: ofEvents(parts),
    value: (v) => sql`(${v} is not null and f.first_at < ${instant(parts.range.startMs)})::int`,
  }),
  wau: share((parts) => ofEvents(parts, since(parts, WEEK_DAYS))),
  mau: share((parts) => ofEvents(parts, since(parts, MONTH_DAYS))),
  messageSenders: share((parts) => ofEffect(parts, "messages")),
  events: (parts) => ({ kind: "mean", of: ofEvents(parts), value: orZero }),
  eventsPerActivePlayer: (parts) => ({ kind: "mean", of: ofEvents(parts), value: (v) => v }),
  avgDau: (parts) => ({
    kind: "mean",
    of: activeDays(parts, daysOf(parts.range)),
    value: (v) => sql`coalesce(${v}, 0)::float8 / ${daysOf(parts.range)}::int`,
  }),
  stickiness: (parts) => ({
    kind: "mean",
    of: activeDays(parts, MONTH_DAYS),
    value: (v) => sql`${v}::float8 / ${MONTH_DAYS}::int`,
  }),
  xpGranted: effect("xpGranted"),
  levelUps: effect("levelUps"),
  badgesEarned: effect("badgesEarned"),
  questsStarted: effect("questsStarted"),
  questsCompleted: effect("questsCompleted"),
  adventuresStarted: effect("adventuresStarted"),
  adventuresCompleted: effect("adventuresCompleted"),
  matches: effect("matchPlayers"),
  messages: effect("messages"),
};

/** The names of the metrics that groups of players can be compared by. */
export const COMPARED_METRICS = Object.keys(OF_PLAYERS);

/**
 * Returns how a metric of trends is measured of one player.
 * @param range as far as it has passed
 * @throws DomainError VALIDATION_ERROR for a metric that is not of players
 */
export const playerValue = (
  { frame, range }: Asked,
  { text, metric }: { text: string; metric: TrendMetric },
): PlayerValue => {
  const parts = { frame, range };
  switch (metric.kind) {
    case "event":
      return { kind: "mean", of: ofEvents(parts, { types: [metric.eventType] }), value: orZero };
    case "sum": {
      const sum = sql`sum(${propertyNumber(metric.path)})`;
      return { kind: "mean", of: ofEvents(parts, { types: [metric.eventType] }, sum), value: orZero };
    }
    case "currency":
      return { kind: "mean", of: ofEffect(parts, "currencyGranted", metric.key), value: orZero };
    case "overview": {
      const make = OF_PLAYERS[metric.name];
      if (!make)
        throw invalid(
          "metric",
          `${text} is not of single players, so it cannot be compared; what can be: event:, sum:, ` +
            `currencyGranted:, ${COMPARED_METRICS.join(", ")}`,
        );
      return make(parts);
    }
  }
};
