import { sql } from "kysely";
import { withoutSecrets } from "../../economy/definitions/secrets.ts";
import { DEFINITION_KINDS } from "../definition-kinds.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { Leaderboard } from "../../progression/leaderboard.ts";
import { getCurve } from "../../progression/level-curves.ts";
import type { CurveInput } from "../../evaluation/xp/levels.ts";
import { Project, settingsOf } from "../../accounts/projects/project.ts";
import type { Phase } from "../../evaluation/live.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import type { RuleStatus } from "../../evaluation/running/rule-status.ts";
import { nextSlice } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { readReports } from "../../analytics/reports/documents.ts";
import { CONFIG_FORMAT, type ConfigDocument, REPORTS } from "./document.ts";

/**
 * Exports all definitions of a project, without archived ones. For a published rule the running version is
 * exported; unpublished edits are not.
 */
export const exportConfig = async (work: Work, projectId: string): Promise<ConfigDocument> => {
  await work.em.flush();
  const project = await work.em.findOne(Project, { id: projectId });
  if (!project) throw notFound("project");
  const { type, params } = await getCurve(work, projectId);
  return {
    format: CONFIG_FORMAT,
    timezone: project.timezone,
    settings: settingsOf(project),
    levelCurve: { type, params } as CurveInput,
    ...(await exportDefinitions(work, projectId)),
    leaderboards: await exportBoards(work, projectId),
    rules: await exportRules(work, projectId),
    [REPORTS]: (await readReports(work, projectId)).map(({ document }) => document),
  };
};

/** As `exportConfig`, without secrets: what an answer shows. An import keeps those that the project has. */
export const exportShown = async (work: Work, projectId: string): Promise<ConfigDocument> => {
  const exported = await exportConfig(work, projectId);
  const shown = DEFINITION_KINDS.map(({ kind, plural }): [string, Json[]] => [
    plural,
    (exported[plural] as Json[]).map((definition) => withoutSecrets(kind, definition)),
  ]);
  return { ...exported, ...Object.fromEntries(shown) };
};

/** Data that is only read stays out of the unit of work, which compares all its entities at each flush. */
const UNMANAGED = { disableIdentityMap: true, orderBy: { key: "asc" } } as const;
/** Number of definitions, or rules, per statement. */
const PAGE_ITEMS = 150;

/** Reads everything that `read` returns page by page, yielding to other work in between. */
const readPages = async <T>(read: (last: T | undefined) => Promise<T[]>): Promise<T[]> => {
  const found: T[] = [];
  for (;;) {
    const page = await read(found.at(-1));
    found.push(...page);
    if (page.length < PAGE_ITEMS) return found;
    await nextSlice();
  }
};

type DefinitionRow = { kind: string; key: string; definition: Json; phase: Phase | null };

const exportDefinitions = async ({ db }: Work, projectId: string): Promise<Record<string, Json[]>> => {
  const found = await readPages<DefinitionRow>(async (last) => {
    const after = last ? sql`and (kind, key) > (${last.kind}, ${last.key})` : sql``;
    const { rows } = await sql<DefinitionRow>`
      select kind, key, definition, phase from definitions
      where project_id = ${projectId} and status = 'ACTIVE' ${after}
      order by kind, key limit ${PAGE_ITEMS}`.execute(db);
    return rows;
  });
  const byKind = Map.groupBy(found, ({ kind }) => kind);
  return Object.fromEntries(
    DEFINITION_KINDS.map(({ kind, plural }) => [
      plural,
      (byKind.get(kind) ?? []).map(({ definition, phase }) => {
        return phase ? { ...definition, status: phase === "RUNNING" ? "ACTIVE" : phase } : definition;
      }),
    ]),
  );
};

const exportBoards = async ({ em }: Work, projectId: string): Promise<ConfigDocument["leaderboards"]> => {
  const boards = await em.find(Leaderboard, { projectId, status: { $ne: "ARCHIVED" } }, UNMANAGED);
  return boards.map(exportedBoard);
};

/** Returns a board as a document has it. */
export const exportedBoard = ({ key, name, status, definition }: Leaderboard): ExportedBoard => ({
  status: status === "PAUSED" ? "PAUSED" : "ACTIVE",
  leaderboard: { ...definition, key, name, backfill: false },
});

type ExportedBoard = NonNullable<ConfigDocument["leaderboards"]>[number];

type RuleRow = { key: string; status: RuleStatus; rule: RuleDocument };

const exportRules = async ({ db }: Work, projectId: string): Promise<ConfigDocument["rules"]> => {
  const found = await readPages<RuleRow>(async (last) => {
    const after = last ? sql`and r.key > ${last.key}` : sql``;
    const { rows } = await sql<RuleRow>`
      select r.key, r.status, coalesce(v.definition, r.draft) as rule from rules r
      left join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${projectId} and r.status <> 'ARCHIVED' ${after}
      order by r.key limit ${PAGE_ITEMS}`.execute(db);
    return rows;
  });
  return found.map(({ status, rule }) => ({ status: status === "ARCHIVED" ? "DRAFT" : status, rule }));
};
