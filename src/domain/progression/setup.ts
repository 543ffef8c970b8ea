import { sql } from "kysely";
import { shareConfig } from "../config-lock.ts";
import { indexBoards, type BoardIndex } from "../leaderboards/scoring.ts";
import { loadBoards } from "../leaderboards/leaderboards.ts";
import { loadRuleSet, type RuleSet } from "../rules/rules.ts";
import type { Work } from "../work.ts";
import { getCurve } from "./level-curves.ts";
import type { ProjectSetup } from "./turn.ts";

/** A project's setup together with its compiled rules. */
export type ProjectPlan = ProjectSetup & {
  rules: RuleSet;
  boardIndex: BoardIndex;
  autoCreatePlayers: boolean;
};

/** Plans kept in a process; a plan that has gone is compiled again. */
const PLANS_MAX = 1_000;

/** Compiled plans by project, valid for one config version. */
export type PlanCache = Map<string, ProjectPlan>;

export const createPlanCache = (): PlanCache => new Map();

type ProjectRow = { id: string; config_version: string | number; timezone: string; settings: Settings };
type Settings = { autoCreatePlayers?: boolean; allowLevelDown?: boolean };

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
    select id, config_version, timezone, settings from projects
    where id = any(${`{${projectIds.join(",")}}`}::uuid[])`.execute(work.db);
  const plans = new Map<string, ProjectPlan>();
  for (const row of rows.rows) {
    const known = cache.get(row.id);
    const isCurrent = known?.configVersion === Number(row.config_version);
    plans.set(row.id, isCurrent ? known : keep(cache, await compilePlan(work, row)));
  }
  return plans;
};

/** The plan of one project for a read: no lock, not cached. */
export const loadPlan = async (work: Work, projectId: string): Promise<ProjectPlan | undefined> => {
  const rows = await sql<ProjectRow>`
    select id, config_version, timezone, settings from projects where id = ${projectId}`.execute(work.db);
  return rows.rows[0] && (await compilePlan(work, rows.rows[0]));
};

const keep = (cache: PlanCache, plan: ProjectPlan): ProjectPlan => {
  cache.delete(plan.projectId);
  cache.set(plan.projectId, plan);
  if (cache.size > PLANS_MAX) cache.delete(cache.keys().next().value!);
  return plan;
};

const compilePlan = async (work: Work, row: ProjectRow): Promise<ProjectPlan> => {
  const configVersion = Number(row.config_version);
  const boards = (await loadBoards(work, row.id)).filter((board) => board.status === "ACTIVE");
  return {
    projectId: row.id,
    configVersion,
    timezone: row.timezone,
    curve: await getCurve(work, row.id),
    boards,
    boardsByKey: new Map(boards.map((board) => [board.key, board])),
    boardIndex: indexBoards(boards),
    allowLevelDown: row.settings.allowLevelDown ?? false,
    autoCreatePlayers: row.settings.autoCreatePlayers ?? true,
    rules: await loadRuleSet(work, row.id),
  };
};
