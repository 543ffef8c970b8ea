import type { PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { type CompiledMetric, compileMetric } from "../evaluation/metrics/compile.ts";
import { readMetricAt } from "../evaluation/metrics/count.ts";
import type { Metric } from "../evaluation/metrics/metric.ts";
import { offsetOf, type PageQuery } from "../kernel/paging.ts";
import type { Work } from "../kernel/work.ts";
import type { Player } from "../players/player.ts";
import { loadStates } from "../progression/load-states.ts";
import { doc } from "../progression/parts/doc.ts";
import { projectPlans, readPlan } from "../progression/plan.ts";
import { stateOfPlayer } from "../progression/players/show.ts";

/** Maximum definitions that are named as readers of a metric. */
const READERS_MAX = 10;
/** Maximum metrics that are included with a player. */
const INCLUDED_METRICS_MAX = 100;

type Reader = { kind: "rule" | "badge" | "segment" | "quest"; key: string };

/** A counter of a player; `value` is null where it has none: of min, max, avg and latest without events. */
export type PlayerMetric = { id: string; metric: Metric; value: number | null; readBy: Reader[] };

type Read = { metric: CompiledMetric; readBy: Reader[] };

const known = new WeakMap<ProjectPlan, readonly Read[]>();

/** Returns the metrics that a project's definitions read, by id; computed once for each plan. */
const metricsOf = (plan: ProjectPlan): readonly Read[] => {
  const found = known.get(plan) ?? collect(plan);
  known.set(plan, found);
  return found;
};

const collect = ({ rules, badges, segments, quests }: ProjectPlan): Read[] => {
  const byId = new Map<string, Read>();
  const add = (metrics: readonly Metric[], reader: Reader): void => {
    for (const definition of metrics) {
      const metric = compileMetric(definition);
      const read = byId.get(metric.id) ?? { metric, readBy: [] };
      byId.set(metric.id, read);
      const isNew = read.readBy.at(-1)?.key !== reader.key || read.readBy.at(-1)?.kind !== reader.kind;
      if (isNew && read.readBy.length < READERS_MAX) read.readBy.push(reader);
    }
  };
  for (const { key, metrics } of rules.all) add(metrics, { kind: "rule", key });
  for (const [key, { metrics }] of badges) add(metrics, { kind: "badge", key });
  for (const [key, { metrics }] of segments) add(metrics, { kind: "segment", key });
  for (const [key, { metrics }] of quests.byKey) add(metrics, { kind: "quest", key });
  return [...byId.values()].toSorted((a, b) => (a.metric.id < b.metric.id ? -1 : 1));
};

/** Lists the counters that a project's definitions read, as they are now for a player. */
export const listMetrics = async (
  work: Work,
  player: Player,
  query: PageQuery,
): Promise<{ metrics: PlayerMetric[]; total: number }> => {
  const plan = await readPlan(work, player.projectId, projectPlans);
  const state = stateOfPlayer(player);
  await loadStates(work, [state], [plan], [doc]);
  return shownMetrics(state, plan, { atMs: work.now.getTime(), query });
};

/** Returns the counters of a player whose document is loaded, as `listMetrics` does. */
const shownMetrics = (
  state: PlayerState,
  plan: ProjectPlan,
  { atMs, query }: { atMs: number; query: PageQuery },
): { metrics: PlayerMetric[]; total: number } => {
  const offset = offsetOf(query);
  const all = metricsOf(plan);
  const metrics = all.slice(offset, offset + query.limit).map(({ metric, readBy }) => ({
    id: metric.id,
    metric: metric.definition,
    value: readMetricAt({ player: state, project: plan }, metric, atMs) ?? null,
    readBy: [...readBy],
  }));
  return { metrics, total: all.length };
};

/** Returns the first metrics of a player whose document is loaded. */
export const includedMetrics = (state: PlayerState, plan: ProjectPlan, atMs: number): PlayerMetric[] =>
  shownMetrics(state, plan, { atMs, query: { page: 1, limit: INCLUDED_METRICS_MAX } }).metrics;
