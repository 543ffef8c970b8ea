import { sql } from "kysely";
import { NIL_ID } from "../../kernel/ids.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import {
  checkAdventures,
  checkExecutions,
  checkLevels,
  checkResults,
  checkStream,
  checkXpBoards,
} from "./player-checks.ts";
import { checkBadges, checkQuests } from "./quest-checks.ts";
import { type Check, checkLedger, type Finding, type Page } from "./finding.ts";

/** Number of players per transaction: they are locked meanwhile, so their events wait. */
const PAGE = 200;

/** In this order: levels and boards are compared with XP, which the ledger check may have repaired. */
const CHECKS: readonly Check[] = [
  checkLedger,
  checkLevels,
  checkStream,
  checkExecutions,
  checkXpBoards,
  checkResults,
  checkBadges,
  checkQuests,
  checkAdventures,
];

export type Reconciliation = { projects: number; players: number; findings: number };
export type ReconcileOptions = {
  /** Default: every project. */
  projectId?: string;
  /** Restores derived data from its source: XP, balances, holds, levels, XP boards. */
  repair: boolean;
  onFinding: (finding: Finding) => void;
  /** Is told after each page how many players have been checked; `total` is their number at the start. */
  onProgress?: (progress: { players: number; total: number }) => void;
};

/**
 * Checks players' data against its invariants: ledger, balances, levels, stream, executions, XP boards,
 * results of closed periods, badges that follow counters, quests, adventures. Runs beside a server: each page
 * of players is locked during its check.
 * @throws DomainError NOT_FOUND for an unknown project
 */
export const reconcile = async (transact: Transact, options: ReconcileOptions): Promise<Reconciliation> => {
  const projectIds = await transact((work) => readProjects(work, options.projectId));
  if (options.projectId !== undefined && projectIds.length === 0)
    throw notFound(`the project ${options.projectId}`);
  const { onProgress } = options;
  const players = onProgress ? await transact((work) => countPlayers(work, projectIds)) : 0;
  const total: Reconciliation = { projects: projectIds.length, players: 0, findings: 0 };
  for (const projectId of projectIds) {
    for (let after: string | undefined = NIL_ID; after !== undefined;) {
      const from: string = after;
      const done = await transact((work) =>
        reconcilePage(work, { projectId, after: from, repair: options.repair }),
      );
      // After the commit: a repair that is rolled back has not been made.
      for (const finding of done.findings) options.onFinding(finding);
      total.players += done.players;
      total.findings += done.findings.length;
      onProgress?.({ players: total.players, total: Math.max(players, total.players) });
      after = done.next;
    }
  }
  return total;
};

const readProjects = async ({ db }: Work, projectId: string | undefined): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id from projects
    where deleted_at is null and (${projectId ?? null}::uuid is null or id = ${projectId ?? null}::uuid)
    order by id`.execute(db);
  return rows.map(({ id }) => id);
};

const countPlayers = async ({ db }: Work, projectIds: readonly string[]): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from players
    where project_id = any(${`{${projectIds.join(",")}}`}::uuid[])`.execute(db);
  return rows[0]!.count;
};

type PageQuery = { projectId: string; after: string; repair: boolean };
type PageDone = { players: number; findings: Finding[]; next: string | undefined };

const reconcilePage = async (work: Work, { projectId, after, repair }: PageQuery): Promise<PageDone> => {
  const { rows } = await sql<{ id: string }>`
    select id from players where project_id = ${projectId} and id > ${after}::uuid
    order by id limit ${PAGE} for update`.execute(work.db);
  const page: Page = { projectId, playerIds: rows.map(({ id }) => id) };
  const findings: Finding[] = [];
  if (rows.length > 0) for (const check of CHECKS) findings.push(...(await check(work, page, repair)));
  return { players: rows.length, findings, next: rows.length < PAGE ? undefined : rows.at(-1)!.id };
};
