import { sql } from "kysely";
import { type CompiledBadge } from "../badges/badge.ts";
import type { ActiveCampaign } from "../boosts/campaign-boost.ts";
import { shareConfig } from "../config-lock.ts";
import type { Currency } from "../currencies/currency.ts";
import { loadDefinitions } from "../definitions/load.ts";
import { notFound } from "../errors.ts";
import { type BoardIndex, indexBoards } from "../leaderboards/board-index.ts";
import { loadBoards } from "../leaderboards/leaderboards.ts";
import type { Board } from "../leaderboards/scoring.ts";
import type { MetricIndex } from "../metrics/metric.ts";
import { type ProjectSettings, settingsFrom } from "../projects/project.ts";
import type { Reward } from "../rewards/reward.ts";
import { loadRuleSet, type RuleSet } from "../rules/rules.ts";
import type { SegmentIndex } from "../segments/segment-index.ts";
import type { CompiledSegment } from "../segments/segment.ts";
import type { CompiledStreak } from "../streaks/streak.ts";
import { KEPT, type Work } from "../work.ts";
import { compileEconomy } from "./economy.ts";
import type { Level } from "./level-rewards.ts";
import { getCurve } from "./level-curves.ts";
import type { LevelCurve } from "./levels.ts";

/** A definition as evaluation uses it. */
export type Live<D> = { id: string; definition: D };

/** A project's definitions of the economy, compiled; archived ones are not in it. */
export type Economy = {
  currencies: ReadonlyMap<string, Currency>;
  badges: ReadonlyMap<string, CompiledBadge>;
  streaks: ReadonlyMap<string, CompiledStreak>;
  segments: ReadonlyMap<string, CompiledSegment>;
  /** The DYNAMIC ones, ready to be brought up to date. */
  segmentIndex: SegmentIndex;
  rewards: ReadonlyMap<string, Live<Reward>>;
  /** By number. */
  levels: ReadonlyMap<number, Level>;
  boosts: readonly ActiveCampaign[];
  /** Counters that rules, badges and segments read. */
  metrics: MetricIndex;
  /** Whether anything listens to an event type; then an effect of that type becomes a derived event. */
  hears(eventType: string): boolean;
};

/** Everything of a project that evaluation needs, read and compiled once per config version. */
export type ProjectPlan = Economy & {
  projectId: string;
  configVersion: number;
  timezone: string;
  isSandbox: boolean;
  settings: ProjectSettings;
  curve: LevelCurve;
  boards: readonly Board[];
  boardsByKey: ReadonlyMap<string, Board>;
  boardIndex: BoardIndex;
  rules: RuleSet;
};

/** Plans kept in a process; a plan that has gone is compiled again. */
const PLANS_MAX = 1_000;

/** Compiled plans by project, valid for one config version. */
export type PlanCache = Map<string, ProjectPlan>;

export const createPlanCache = (): PlanCache => new Map();

type ProjectRow = {
  id: string;
  config_version: string | number;
  timezone: string;
  settings: Partial<ProjectSettings>;
  sandbox_of: string | null;
};

const COLUMNS = sql.raw("id, config_version, timezone, settings, sandbox_of");

/**
 * The plans of `projectIds`, for evaluation in this transaction: a change of definitions waits for batches
 * that evaluate the old version, and batches that come later see the new one (config-lock.ts). Two
 * statements, plus the definitions of projects whose version moved.
 */
export const loadPlans = async (
  work: Work,
  projectIds: readonly string[],
  cache: PlanCache,
): Promise<Map<string, ProjectPlan>> => {
  await shareConfig(work, projectIds);
  const rows = await sql<ProjectRow>`
    ${sql.raw(KEPT)} select ${COLUMNS} from projects
    where id = any(${`{${projectIds.join(",")}}`}::uuid[])`.execute(work.db);
  const plans = new Map<string, ProjectPlan>();
  for (const row of rows.rows) {
    const known = cache.get(row.id);
    const isCurrent = known?.configVersion === Number(row.config_version);
    plans.set(row.id, isCurrent ? known : keep(cache, await compilePlan(work, row)));
  }
  return plans;
};

/**
 * The plan of one project for reads that are as good with the definitions of a moment ago: no lock. One that
 * was compiled while the definitions changed is not kept.
 * @throws DomainError NOT_FOUND
 */
export const readPlan = async (work: Work, projectId: string, cache: PlanCache): Promise<ProjectPlan> => {
  const read = () =>
    sql<ProjectRow>`select ${COLUMNS} from projects where id = ${projectId}`.execute(work.db);
  const [row] = (await read()).rows;
  if (!row) throw notFound("project");
  const known = cache.get(projectId);
  if (known?.configVersion === Number(row.config_version)) return known;
  const plan = await compilePlan(work, row);
  const [after] = (await read()).rows;
  return Number(after?.config_version) === plan.configVersion ? keep(cache, plan) : plan;
};

/** The plan of one project for a read: no lock, not cached. `rules` stand in for those that run. */
export const loadPlan = async (
  work: Work,
  projectId: string,
  rules?: RuleSet,
): Promise<ProjectPlan | undefined> => {
  const rows = await sql<ProjectRow>`
    select ${COLUMNS} from projects where id = ${projectId}`.execute(work.db);
  return rows.rows[0] && (await compilePlan(work, rows.rows[0], rules));
};

const keep = (cache: PlanCache, plan: ProjectPlan): ProjectPlan => {
  cache.delete(plan.projectId);
  cache.set(plan.projectId, plan);
  if (cache.size > PLANS_MAX) cache.delete(cache.keys().next().value!);
  return plan;
};

const compilePlan = async (work: Work, row: ProjectRow, given?: RuleSet): Promise<ProjectPlan> => {
  const boards = (await loadBoards(work, row.id)).filter((board) => board.status === "ACTIVE");
  const rules = given ?? (await loadRuleSet(work, row.id));
  return {
    ...compileEconomy(await loadDefinitions(work, row.id), rules),
    projectId: row.id,
    configVersion: Number(row.config_version),
    timezone: row.timezone,
    isSandbox: row.sandbox_of !== null,
    settings: settingsFrom(row.settings),
    curve: await getCurve(work, row.id),
    boards,
    boardsByKey: new Map(boards.map((board) => [board.key, board])),
    boardIndex: indexBoards(boards),
    rules,
  };
};
