import { sql } from "kysely";
import type { LeftOut } from "../evaluation/left-out.ts";
import { loadRunning } from "./load-definitions.ts";
import { DomainError } from "../kernel/errors.ts";
import { boardPieces } from "../evaluation/boards/board-index.ts";
import type { Board } from "../evaluation/boards/board.ts";
import { loadBoards } from "./load-boards.ts";
import { BUSY } from "../kernel/outages.ts";
import { bytesOf } from "../kernel/oversize.ts";
import { type PacedBudget, paced, type Pieces } from "../kernel/pace.ts";
import { type ProjectSettings, settingsFrom } from "../evaluation/project-settings.ts";
import { publishedPieces, type PublishedRule, type RuleSet } from "../evaluation/running/compile.ts";
import { loadRunningRules } from "./load-running.ts";
import { TEXT_PER_STEP } from "../kernel/step-budget.ts";
import type { Work } from "../kernel/work.ts";
import { kept } from "../kernel/statements.ts";
import { type DefinitionsByKind, economyPieces } from "./economy.ts";
import { getCurve } from "./level-curves.ts";
import type { LevelCurve } from "../evaluation/xp/levels.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";

/** A config version of a project, and its tenant. */
export type Version = { projectId: string; tenantId: string; configVersion: number };

export type ProjectRow = {
  id: string;
  tenant_id: string;
  config_version: string | number;
  timezone: string;
  settings: Partial<ProjectSettings>;
  sandbox_of: string | null;
  clock_ahead_ms: string | number;
};

const COLUMNS = sql.raw("id, tenant_id, config_version, timezone, settings, sandbox_of, clock_ahead_ms");

export const readRows = async ({ db }: Work, projectIds: readonly string[]): Promise<ProjectRow[]> =>
  (
    await kept(
      db,
      sql<ProjectRow>`
      select ${COLUMNS} from projects
      where id = any(${`{${projectIds.join(",")}}`}::uuid[])`,
    )
  ).rows;

export const readProject = async ({ db }: Work, projectId: string): Promise<ProjectRow | undefined> =>
  (await kept(db, sql<ProjectRow>`select ${COLUMNS} from projects where id = ${projectId}`)).rows[0];

export const versionOf = (row: ProjectRow): Version => ({
  projectId: row.id,
  tenantId: row.tenant_id,
  configVersion: Number(row.config_version),
});

/** The parts that a plan is compiled from, as read. */
export type PlanParts = {
  row: ProjectRow;
  boards: readonly Board[];
  rules: readonly PublishedRule[] | RuleSet;
  definitions: DefinitionsByKind;
  curve: LevelCurve;
  /** Definitions that were not read because of their size. */
  unread: readonly LeftOut[];
};

/** How often definitions are read again when they change during the read. */
const READS_MAX = 5;

/** Seconds after which a client that met such changes retries. */
const RETRY_SECONDS = 1;

const changing = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "The project's definitions are being changed right now: try again", {
    reason: BUSY,
    retryAfterSeconds: RETRY_SECONDS,
  });

/**
 * Reads a project's definitions without locking them, all of one version.
 * @throws DomainError SERVICE_UNAVAILABLE BUSY when they keep changing
 */
export const readParts = async (work: Work, projectId: string): Promise<PlanParts | undefined> => {
  let row = await readProject(work, projectId);
  for (let reads = 1; row; reads++) {
    const parts = await readPartsOf(work, row);
    const after = await readProject(work, projectId);
    if (after?.config_version === row.config_version) return parts;
    if (reads === READS_MAX) throw changing();
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

/** Computes the bytes of documents as JSON, in slices. */
function* sizePieces(documents: readonly object[]): Pieces<number> {
  let sum = 0;
  for (const document of documents) {
    const bytes = bytesOf(document);
    sum += bytes;
    yield 1 + bytes / TEXT_PER_STEP;
  }
  return sum;
}

const isCompiled = (rules: PlanParts["rules"]): rules is RuleSet => "candidates" in rules;

export const compileParts = (parts: PlanParts, steps: PacedBudget): Promise<ProjectPlan> =>
  paced(planPieces(parts), steps);

function* planPieces(parts: PlanParts): Pieces<ProjectPlan> {
  const { row, boards, rules: given, definitions, curve, unread } = parts;
  const rules = isCompiled(given) ? given : yield* publishedPieces(given, row.tenant_id);
  const economy = yield* economyPieces(definitions, rules);
  const stored = [...definitions.values()].flat();
  return {
    ...economy,
    leftOut: [...unread, ...economy.leftOut],
    ...versionOf(row),
    bytes: yield* sizePieces([...[...rules.all, ...stored].map(({ definition }) => definition), ...boards]),
    timezone: row.timezone,
    isSandbox: row.sandbox_of !== null,
    clockAheadMs: Number(row.clock_ahead_ms),
    settings: settingsFrom(row.settings),
    curve,
    boards,
    boardsByKey: new Map(boards.map((board) => [board.key, board])),
    boardIndex: yield* boardPieces(boards),
    rules,
  };
}
