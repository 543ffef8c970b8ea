import { sql } from "kysely";
import type { LeftOut } from "../definitions/left-out.ts";
import { loadRunning } from "../definitions/load.ts";
import { boardPieces } from "../leaderboards/board-index.ts";
import type { Board } from "../leaderboards/board.ts";
import { loadBoards } from "../leaderboards/leaderboards.ts";
import { type PacedBudget, paced, type Pieces } from "../pace.ts";
import { type ProjectSettings, settingsFrom } from "../projects/project.ts";
import { publishedPieces, type PublishedRule, type RuleSet } from "../rules/running/compile.ts";
import { loadRunningRules } from "../rules/running/load-running.ts";
import { KEPT, type Work } from "../work.ts";
import { type DefinitionsByKind, economyPieces } from "./economy.ts";
import { getCurve } from "./level-curves.ts";
import type { LevelCurve } from "./levels.ts";
import type { ProjectPlan } from "./project-plan.ts";

export type Version = { projectId: string; configVersion: number };

export type ProjectRow = {
  id: string;
  config_version: string | number;
  timezone: string;
  settings: Partial<ProjectSettings>;
  sandbox_of: string | null;
};

const COLUMNS = sql.raw("id, config_version, timezone, settings, sandbox_of");

export const readRows = async ({ db }: Work, projectIds: readonly string[]): Promise<ProjectRow[]> =>
  (
    await sql<ProjectRow>`
      ${sql.raw(KEPT)} select ${COLUMNS} from projects
      where id = any(${`{${projectIds.join(",")}}`}::uuid[])`.execute(db)
  ).rows;

export const readProject = async ({ db }: Work, projectId: string): Promise<ProjectRow | undefined> =>
  (await sql<ProjectRow>`select ${COLUMNS} from projects where id = ${projectId}`.execute(db)).rows[0];

export const versionOf = (row: ProjectRow): Version => ({
  projectId: row.id,
  configVersion: Number(row.config_version),
});

/** Everything that a plan is made of, as it was read. */
export type PlanParts = {
  row: ProjectRow;
  boards: readonly Board[];
  rules: readonly PublishedRule[] | RuleSet;
  definitions: DefinitionsByKind;
  curve: LevelCurve;
  /** What was not even read. */
  unread: readonly LeftOut[];
};

/** How often definitions are read again that change while they are read. */
const READS_MAX = 5;

/**
 * Reads a project's definitions without holding them: all of one version.
 * @throws Error when they change all the time
 */
export const readParts = async (work: Work, projectId: string): Promise<PlanParts | undefined> => {
  let row = await readProject(work, projectId);
  for (let reads = 1; row; reads++) {
    const parts = await readPartsOf(work, row);
    const after = await readProject(work, projectId);
    if (after?.config_version === row.config_version) return parts;
    if (reads === READS_MAX) throw new Error(`the definitions of ${projectId} change all the time`);
    row = after;
  }
  return undefined;
};

export const readPartsOf = async (work: Work, row: ProjectRow, given?: RuleSet): Promise<PlanParts> => {
  const boards = (await loadBoards(work, row.id)).filter((board) => board.status === "ACTIVE");
  const { rules, leftOut } = given ? { rules: given, leftOut: [] } : await loadRunningRules(work, row.id);
  const found = await loadRunning(work, row.id);
  const unread = [...leftOut, ...found.leftOut];
  return { row, boards, rules, definitions: found.definitions, curve: await getCurve(work, row.id), unread };
};

const isCompiled = (rules: PlanParts["rules"]): rules is RuleSet => "candidates" in rules;

export const compileParts = (parts: PlanParts, steps: PacedBudget): Promise<ProjectPlan> =>
  paced(planPieces(parts), steps);

function* planPieces(parts: PlanParts): Pieces<ProjectPlan> {
  const { row, boards, rules: given, definitions, curve, unread } = parts;
  const rules = isCompiled(given) ? given : yield* publishedPieces(given);
  const economy = yield* economyPieces(definitions, rules);
  return {
    ...economy,
    leftOut: [...unread, ...economy.leftOut],
    ...versionOf(row),
    timezone: row.timezone,
    isSandbox: row.sandbox_of !== null,
    settings: settingsFrom(row.settings),
    curve,
    boards,
    boardsByKey: new Map(boards.map((board) => [board.key, board])),
    boardIndex: yield* boardPieces(boards),
    rules,
  };
}
