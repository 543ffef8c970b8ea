import type { Work } from "../kernel/work.ts";
import type { ActiveEvents } from "./activity.ts";
import type { Asked } from "./ask.ts";
import {
  type Change,
  changeOf,
  comparedWith,
  type ComparisonQuery,
  pointsOf,
  showComparison,
} from "./comparison.ts";
import { countCompletions, measureEffects } from "./measure-effects.ts";
import { countReturning, measureActivity, measureNewcomers } from "./measure-players.ts";
import { METRIC_NAMES, type MetricName, METRICS, type Whole } from "./metrics.ts";
import type { Frame, Range } from "./range.ts";

export type OverviewQuery = ComparisonQuery & { activeEvents?: ActiveEvents };

/** A metric as answers show it. */
export type MetricView = {
  value: number | null;
  goodDirection: "up" | "down";
  /** A value for each local day. */
  series?: number[];
} & Partial<Change>;

export type Overview = {
  comparison: ReturnType<typeof showComparison> | null;
  metrics: Record<MetricName, MetricView> & { currencyGranted: Record<string, MetricView> };
};

/** What is measured of a range, with a value for each of its local days where a metric has such. */
type Measured = Whole & { daily: Partial<Record<MetricName, number[]>> };

/** Measures ranges: everything that an overview shows. */
const measureRanges = async (
  work: Work,
  { frame, ranges, activeEvents }: { frame: Frame; ranges: readonly Range[]; activeEvents: ActiveEvents },
): Promise<Measured[]> => {
  const newcomers = await measureNewcomers(work, frame, ranges);
  const measured: Measured[] = [];
  for (const [i, range] of ranges.entries()) {
    const { fresh, total, daily: dailyNew } = newcomers[i]!;
    const measuring = { work, frame, range, activeEvents };
    const activity = await measureActivity(measuring);
    // Whoever is new is active too, unless only some events count.
    const returning = activeEvents === undefined ? activity.active - fresh : await countReturning(measuring);
    const { daily, ...effects } = await measureEffects(work, frame, range);
    const quests = await countCompletions(work, frame, range);
    const { dailyActive: activePlayers, dailyEvents: events } = activity;
    const {
      matchPlayers: _players,
      currencyGranted: _currency,
      webhooksDelivered: _ok,
      webhooksFailed: _no,
      ...sums
    } = daily;
    measured.push({
      activity,
      windows: activity,
      newcomers: { fresh, total },
      returning,
      effects,
      quests,
      daily: { activePlayers, newPlayers: dailyNew, events, ...sums },
    });
  }
  return measured;
};

/**
 * Reads the overview of a range: how players did, beside the range that it is compared with.
 * @throws DomainError VALIDATION_ERROR for a comparison that is none
 */
export const readOverview = async (
  work: Work,
  { frame, range }: Asked,
  query: OverviewQuery,
): Promise<Overview> => {
  const compared = comparedWith(frame, range, query);
  const ranges = compared ? [range, compared.range] : [range];
  const [now, before] = await measureRanges(work, { frame, ranges, activeEvents: query.activeEvents });
  return {
    comparison: compared ? showComparison(compared) : null,
    metrics: { ...showMetrics(now!, before), currencyGranted: showCurrencies(now!, before) },
  };
};

const showMetrics = (now: Measured, before: Whole | undefined): Record<MetricName, MetricView> =>
  Object.fromEntries(
    METRIC_NAMES.map((name) => {
      const { unit, goodDirection, read } = METRICS[name];
      const value = read(now);
      const change = unit === "rate" ? pointsOf : changeOf;
      const series = now.daily[name];
      return [
        name,
        {
          value,
          ...(before ? change(value, read(before)) : {}),
          goodDirection,
          ...(series ? { series } : {}),
        },
      ];
    }),
  ) as Record<MetricName, MetricView>;

const showCurrencies = (now: Whole, before: Whole | undefined): Record<string, MetricView> => {
  const keys = [now, ...(before ? [before] : [])].flatMap(({ effects }) => Object.keys(effects.currencies));
  const read = ({ effects }: Whole, key: string): number => effects.currencies[key] ?? 0;
  return Object.fromEntries(
    [...new Set(keys)].toSorted().map((key) => [
      key,
      {
        value: read(now, key),
        ...(before ? changeOf(read(now, key), read(before, key)) : {}),
        goodDirection: "up",
      },
    ]),
  );
};
