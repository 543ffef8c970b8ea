import { type RawBuilder, sql } from "kysely";
import type { Asked } from "../ask.ts";
import { rounded } from "../comparison.ts";
import { type Effect, effectsOf, type EventSelection, eventsOf, instant } from "../events.ts";
import type { MetricName } from "../measure-buckets.ts";
import { MONTH_DAYS, WEEK_DAYS } from "../measure-players.ts";
import { propertyNumber } from "../properties.ts";
import { bucketOf, dayBuckets, daysOf, dayStart, untilAsOf } from "../range.ts";
import { FoundPlayers } from "../rollups/rolled.ts";
import type { TrendMetric } from "../trend-query.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import { type Bucket, compileRollout } from "../../evaluation/running/limits.ts";
import { pagesIn } from "../../kernel/cursor.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import { addTo, meanDifference, type Sample, shareDifference } from "../../kernel/intervals.ts";
import type { Work } from "../../kernel/work.ts";
import { findRule } from "../../rules/rules.ts";

/** What players who have a rule are compared with: those held out, or those whom the rollout leaves out. */
export const AGAINST = ["holdout", "excluded"] as const;
export type Against = (typeof AGAINST)[number];

type Rollout = NonNullable<RuleDocument["rollout"]>;

/** The groups into which the published version of a rule divides players. */
type RuleGroups = {
  rule: { id: string; key: string; version: number; publishedAt: string };
  rollout: Pick<Rollout, "percent" | "holdoutPercent" | "salt">;
  against: Against;
};

const againstOf = ({ percent, holdoutPercent }: Rollout, asked: Against | undefined): Against => {
  if (asked === "holdout" && holdoutPercent === 0)
    throw invalid("against", "the rule holds nobody out: rollout.holdoutPercent is 0");
  if (asked === "excluded" && percent === 100)
    throw invalid("against", "the rollout leaves nobody out: rollout.percent is 100");
  return asked ?? (holdoutPercent > 0 ? "holdout" : "excluded");
};

/**
 * Reads the groups of a rule.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE for a rule that is not published, or applies to
 *   everybody; VALIDATION_ERROR for a group that it does not have
 */
export const readGroups = async (
  work: Work,
  projectId: string,
  { ruleRef, against }: { ruleRef: string; against?: Against | undefined },
): Promise<RuleGroups> => {
  const rule = await findRule(work, projectId, ruleRef);
  const { rows } = await sql<{ version: number; definition: RuleDocument; publishedAt: Date }>`
    select version, definition, published_at as "publishedAt" from rule_versions
    where rule_id = ${rule.id}::uuid and version = ${rule.publishedVersion ?? 0}::int`.execute(work.db);
  const [published] = rows;
  if (!published) throw conflict("INVALID_STATE", "the rule is not published, so it has no groups");
  const { rollout } = published.definition;
  if (!rollout || !compileRollout(rule.key, rollout))
    throw conflict(
      "INVALID_STATE",
      "the rule applies to everybody: give it a rollout.percent below 100 or a holdoutPercent",
    );
  const { percent, holdoutPercent, salt } = rollout;
  return {
    rule: {
      id: rule.id,
      key: rule.key,
      version: published.version,
      publishedAt: published.publishedAt.toISOString(),
    },
    rollout: { percent, holdoutPercent, ...(salt === undefined ? {} : { salt }) },
    against: againstOf(rollout, against),
  };
};

export const GROUPS = ["treated", "control"] as const;
export type ExperimentGroup = (typeof GROUPS)[number];
type Group = ExperimentGroup;

/** Returns what tells a player's group, by the hash by which the rule does; undefined for one in neither. */
const groupOf = ({ rule, rollout, against }: RuleGroups): ((playerId: string) => Group | undefined) => {
  const rolloutBucket = compileRollout(rule.key, rollout)!;
  const control: Bucket = against === "holdout" ? "HELD" : "OUT";
  return (playerId) => {
    const bucket = rolloutBucket(playerId);
    if (bucket === "IN") return "treated";
    return bucket === control ? "control" : undefined;
  };
};

/** `share`: each player counts or does not. `mean`: each has a number. */
type Kind = "share" | "mean";

/**
 * How a metric is measured of one player: `of` has the columns player_id and v, a row for each player who has
 * any; `value` reads v and `f.first_at`, the time of the first event. Null: the player is not in the mean.
 */
type PlayerValue = {
  kind: Kind;
  of: RawBuilder<unknown>;
  value: (v: RawBuilder<unknown>) => RawBuilder<unknown>;
};

const hasAny = (v: RawBuilder<unknown>) => sql`(${v} is not null)::int`;
const orZero = (v: RawBuilder<unknown>) => sql`coalesce(${v}, 0)`;

const ofEvents = (
  { frame, range }: Asked,
  selection: EventSelection = {},
  aggregate: RawBuilder<unknown> = sql`count(*)`,
): RawBuilder<unknown> => {
  const { startMs, endMs } = range;
  return sql`select e.player_id, ${aggregate} as v
    from (${eventsOf(frame, { fromMs: startMs, untilMs: endMs, ...selection })}) e group by 1`;
};

const ofEffect = ({ frame, range }: Asked, effect: Effect, key?: string): RawBuilder<unknown> => sql`
  select x.player_id, sum(x.amount) as v
  from (${effectsOf(frame, [effect], { fromMs: range.startMs, untilMs: range.endMs })}) x
  where x.player_id is not null ${key === undefined ? sql`` : sql`and x.key = ${key}`} group by 1`;

/** The days on which a player was active, of those that end with the range. */
const activeDays = (parts: Asked, days: number): RawBuilder<unknown> => {
  const { frame, range } = parts;
  const firstDay = range.lastDay - days + 1;
  const buckets = dayBuckets(frame, firstDay, range.lastDay);
  const fromMs = days === daysOf(range) ? range.startMs : buckets.startsMs[0]!;
  return ofEvents(parts, { fromMs }, sql`count(distinct ${bucketOf(buckets, sql`e.at`)})`);
};

const since = ({ frame, range }: Asked, days: number): EventSelection => ({
  fromMs: dayStart(frame, range.lastDay - days + 1),
});

type Make = (parts: Asked) => PlayerValue;

const share =
  (of: (parts: Asked) => RawBuilder<unknown>): Make =>
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
const COMPARED_METRICS = Object.keys(OF_PLAYERS);

/**
 * Returns how a metric of trends is measured of one player.
 * @param parts with the range as far as it has passed
 * @throws DomainError VALIDATION_ERROR for a metric that is not of players
 */
export const playerValue = (
  parts: Asked,
  { text, metric }: { text: string; metric: TrendMetric },
): PlayerValue => {
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

/** Metrics of one question. */
export const EXPERIMENT_METRICS_MAX = 10;
/** Size of a group below which a difference is hardly significant. */
const SMALL_GROUP = 100;

/** Whose players are compared: all with an event before the end of the range, or those new in it. */
export const POPULATIONS = ["all", "new"] as const;
export type Population = (typeof POPULATIONS)[number];

type ExperimentQuery = {
  groups: RuleGroups;
  metrics: readonly { text: string; metric: TrendMetric }[];
  population: Population;
};

const column = (i: number) => sql.id(`v${i}`);

/** A query of the values of every player of the population: the columns player_id, v0, v1 and so on. */
const valuesQuery = (
  { frame, range }: Asked,
  population: Population,
  values: readonly PlayerValue[],
): RawBuilder<unknown> => {
  const joins = values.map(
    ({ of }, i) => sql`left join (${of}) ${sql.id(`m${i}`)} on ${sql.ref(`m${i}.player_id`)} = f.player_id`,
  );
  const selected = values.map(({ value }, i) => sql`(${value(sql.ref(`m${i}.v`))})::float8 as ${column(i)}`);
  return sql`
    select f.player_id::text as player_id, ${sql.join(selected)}
    from (${populationOf({ frame, range }, population)}) f ${sql.join(joins, sql` `)}`;
};

/** A query of who is compared: the columns player_id and first_at. */
const populationOf = ({ frame, range }: Asked, population: Population): RawBuilder<unknown> => {
  const isNew = population === "new" ? sql`having min(e.at) >= ${instant(range.startMs)}` : sql``;
  return sql`
    select e.player_id, min(e.at) as first_at
    from (${eventsOf(frame, { untilMs: range.endMs })}) e group by 1 ${isNew}`;
};

/**
 * Finds the players of a group, whom `readExperiment` counts in it.
 * @returns a query of their ids, in the column player_id
 */
export const findExperimentPlayers = async (
  work: Work,
  { frame, range }: Asked,
  { groups, population }: Pick<ExperimentQuery, "groups" | "population">,
  group: ExperimentGroup,
): Promise<RawBuilder<unknown>> => {
  const who = populationOf({ frame, range: untilAsOf(frame, range) }, population);
  const pages = await pagesIn<{ id: string }>(work, sql`select player_id::text as id from (${who}) f`);
  const nameOf = groupOf(groups);
  const found = new FoundPlayers();
  for (let rows = await pages.next(); rows.length > 0; rows = await pages.next())
    for (const { id } of rows) if (nameOf(id) === group) found.add(id);
  return found.query(frame);
};

type Row = { player_id: string } & Record<`v${number}`, number | null>;

const emptySample = (): Sample => ({ n: 0, mean: 0, squares: 0 });
type Compared = Record<Group, { players: number; samples: Sample[] }>;

const show = ({ n, mean, squares }: Sample, kind: Kind) => ({
  players: n,
  value: n === 0 ? null : rounded(mean, 6),
  deviation: kind === "share" || n < 2 ? null : rounded(Math.sqrt(squares / (n - 1)), 6),
});

/** The first minus the second; null where a group is too small for an interval. */
const differenceOf = (kind: Kind, a: Sample, b: Sample) => {
  const shareOf = ({ n, mean }: Sample) => ({ n, hits: Math.round(mean * n) });
  const found = kind === "share" ? shareDifference(shareOf(a), shareOf(b)) : meanDifference(a, b);
  if (!found) return null;
  const { value, low, high } = found;
  return { value: rounded(value, 6), low: rounded(low, 6), high: rounded(high, 6), confidence: 0.95 };
};

const notesOf = ({ treated, control }: Compared, { rule }: RuleGroups, startMs: number): string[] => [
  ...(treated.players < SMALL_GROUP || control.players < SMALL_GROUP
    ? [`A group of fewer than ${SMALL_GROUP} players: the difference may well be chance; see low and high.`]
    : []),
  ...(Date.parse(rule.publishedAt) > startMs
    ? [`The range begins before this version was published (${rule.publishedAt}): others may have had it.`]
    : []),
];

/**
 * Compares the players to whom a rule applies with those to whom it does not, by metrics of trends. The
 * groups are those of the rule's hash, whether a player met the rule or not, so that they differ by chance
 * alone otherwise. Shares are compared by Newcombe's hybrid score interval, means by Welch's t interval; see
 * kernel/intervals.ts for their sources.
 * @throws DomainError VALIDATION_ERROR for a metric that is not of single players
 */
export const readExperiment = async (
  work: Work,
  asked: Asked,
  { groups, metrics, population }: ExperimentQuery,
) => {
  const passed: Asked = { frame: asked.frame, range: untilAsOf(asked.frame, asked.range) };
  const values = metrics.map((metric) => playerValue(passed, metric));
  const ofGroup = () => ({ players: 0, samples: values.map(emptySample) });
  const compared: Compared = { treated: ofGroup(), control: ofGroup() };
  const nameOf = groupOf(groups);
  const pages = await pagesIn<Row>(work, valuesQuery(passed, population, values));
  for (let rows = await pages.next(); rows.length > 0; rows = await pages.next())
    for (const row of rows) {
      const name = nameOf(row.player_id);
      if (name === undefined) continue;
      const group = compared[name];
      group.players++;
      for (const [i, sample] of group.samples.entries()) {
        const value = row[`v${i}`];
        if (value !== null && value !== undefined) addTo(sample, value);
      }
    }
  const { treated, control } = compared;
  return {
    ruleId: groups.rule.id,
    ruleKey: groups.rule.key,
    version: groups.rule.version,
    percent: groups.rollout.percent,
    holdoutPercent: groups.rollout.holdoutPercent,
    against: groups.against,
    population,
    treated: treated.players,
    control: control.players,
    metrics: metrics.map(({ text }, i) => {
      const { kind } = values[i]!;
      const [a, b] = [treated.samples[i]!, control.samples[i]!];
      return {
        metric: text,
        kind,
        method: kind === "share" ? ("newcombe" as const) : ("welch" as const),
        treated: show(a, kind),
        control: show(b, kind),
        difference: differenceOf(kind, a, b),
      };
    }),
    notes: notesOf(compared, groups, asked.range.startMs),
  };
};
