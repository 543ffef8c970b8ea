import { type RawBuilder, sql } from "kysely";
import { pagesIn } from "../../kernel/cursor.ts";
import {
  addTo,
  type Interval,
  meanDifference,
  type Sample,
  shareDifference,
} from "../../kernel/intervals.ts";
import type { Work } from "../../kernel/work.ts";
import type { Asked } from "../ask.ts";
import { rounded } from "../comparison.ts";
import { eventsOf, instant } from "../events.ts";
import { untilAsOf } from "../range.ts";
import type { TrendMetric } from "../trend-query.ts";
import { type Group, groupOf, type RuleGroups } from "./groups.ts";
import { type Kind, type PlayerValue, playerValue } from "./player-values.ts";

/** Metrics of one question. */
export const EXPERIMENT_METRICS_MAX = 10;
/** Size of a group below which a difference is hardly significant. */
const SMALL_GROUP = 100;

/** Whose players are compared: all with an event before the end of the range, or those new in it. */
export const POPULATIONS = ["all", "new"] as const;
export type Population = (typeof POPULATIONS)[number];

export type ExperimentQuery = {
  groups: RuleGroups;
  metrics: readonly { text: string; metric: TrendMetric }[];
  population: Population;
};

/** `players`: those whom the number is of. `deviation`: the standard deviation of a sample. */
export type GroupView = { players: number; value: number | null; deviation: number | null };

export type ComparedMetric = {
  metric: string;
  kind: Kind;
  method: "newcombe" | "welch";
  treated: GroupView;
  control: GroupView;
  /** Treated minus control; null where a group is too small for an interval. */
  difference: (Interval & { confidence: number }) | null;
};

export type ExperimentView = {
  ruleId: string;
  ruleKey: string;
  version: number;
  percent: number;
  holdoutPercent: number;
  against: RuleGroups["against"];
  population: Population;
  treated: number;
  control: number;
  metrics: ComparedMetric[];
  notes: string[];
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
  const isNew = population === "new" ? sql`having min(e.at) >= ${instant(range.startMs)}` : sql``;
  return sql`
    select f.player_id::text as player_id, ${sql.join(selected)}
    from (select e.player_id, min(e.at) as first_at
      from (${eventsOf(frame, { untilMs: range.endMs })}) e group by 1 ${isNew}) f
    ${sql.join(joins, sql` `)}`;
};

type Row = { player_id: string } & Record<`v${number}`, number | null>;

const emptySample = (): Sample => ({ n: 0, mean: 0, squares: 0 });
type Compared = Record<Group, { players: number; samples: Sample[] }>;

const show = ({ n, mean, squares }: Sample, kind: Kind): GroupView => ({
  players: n,
  value: n === 0 ? null : rounded(mean, 6),
  deviation: kind === "share" || n < 2 ? null : rounded(Math.sqrt(squares / (n - 1)), 6),
});

const differenceOf = (kind: Kind, a: Sample, b: Sample): ComparedMetric["difference"] => {
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
): Promise<ExperimentView> => {
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
    metrics: metrics.map(({ text }, i): ComparedMetric => {
      const { kind } = values[i]!;
      const [a, b] = [treated.samples[i]!, control.samples[i]!];
      return {
        metric: text,
        kind,
        method: kind === "share" ? "newcombe" : "welch",
        treated: show(a, kind),
        control: show(b, kind),
        difference: differenceOf(kind, a, b),
      };
    }),
    notes: notesOf(compared, groups, asked.range.startMs),
  };
};
