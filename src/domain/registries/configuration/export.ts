import { sql } from "kysely";
import { Project, settingsOf } from "../../accounts/projects/project.ts";
import { readReports } from "../../analytics/reports/saved-reports.ts";
import { withoutSecrets, withSecretsOf } from "../../economy/definitions/definitions.ts";
import type { RuleDocument } from "../../evaluation/language/document.ts";
import type { Phase } from "../../evaluation/live.ts";
import type { RuleStatus } from "../../evaluation/running/outcome.ts";
import type { CurveInput } from "../../evaluation/xp/levels.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { nextSlice } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { getCurve } from "../../progression/level-curves.ts";
import { Leaderboard } from "../../progression/load-plan.ts";
import { DEFINITION_KINDS } from "../definition-kinds.ts";
import { CONFIG_FORMAT, REPORTS, type ConfigDocument, keyOf, sectionOf } from "./document.ts";

/**
 * Returns a document with the secrets that its definitions leave out, as far as the project has them.
 * @param current the result of `exportConfig`
 */
export const withSecretsFrom = (current: ConfigDocument, document: ConfigDocument): ConfigDocument => {
  const completed = DEFINITION_KINDS.flatMap(({ kind, plural }): [string, Json[]][] => {
    const section = sectionOf(document, plural);
    if (!section) return [];
    const known = new Map((sectionOf(current, plural) ?? []).map((item) => [keyOf(item), item]));
    return [[plural, section.map((item) => withSecretsOf(kind, item, known.get(keyOf(item))))]];
  });
  return { ...document, ...Object.fromEntries(completed) };
};

/**
 * Exports all definitions of a project, without archived ones. For a published rule the running version is
 * exported; unpublished edits are not.
 * @param isCopied for a copy every rule has its `draft` too, and everything is in the order of its creation, by
 * which rules of equal priority run
 */
export const exportConfig = async (
  work: Work,
  projectId: string,
  { isCopied = false } = {},
): Promise<ConfigDocument> => {
  await work.em.flush();
  const project = await work.em.findOne(Project, { id: projectId });
  if (!project) throw notFound("project");
  const { type, params } = await getCurve(work, projectId);
  return {
    format: CONFIG_FORMAT,
    timezone: project.timezone,
    settings: settingsOf(project),
    levelCurve: { type, params } as CurveInput,
    ...(await exportDefinitions(work, projectId, isCopied)),
    leaderboards: await exportBoards(work, projectId, isCopied),
    rules: await exportRules(work, projectId, isCopied),
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

const byId = (a: { id: string }, b: { id: string }): number => (a.id < b.id ? -1 : 1);

type DefinitionRow = { id: string; kind: string; key: string; definition: Json; phase: Phase | null };

const exportDefinitions = async (
  { db }: Work,
  projectId: string,
  isCopied: boolean,
): Promise<Record<string, Json[]>> => {
  const found = await readPages<DefinitionRow>(async (last) => {
    const after = last ? sql`and (kind, key) > (${last.kind}, ${last.key})` : sql``;
    const { rows } = await sql<DefinitionRow>`
      select id, kind, key, definition, phase from definitions
      where project_id = ${projectId} and status = 'ACTIVE' ${after}
      order by kind, key limit ${PAGE_ITEMS}`.execute(db);
    return rows;
  });
  if (isCopied) found.sort(byId);
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

const exportBoards = async (
  { em }: Work,
  projectId: string,
  isCopied: boolean,
): Promise<ConfigDocument["leaderboards"]> => {
  const boards = await em.find(
    Leaderboard,
    { projectId, status: { $ne: "ARCHIVED" } },
    // Data that is only read stays out of the unit of work, which compares all its entities at each flush.
    { disableIdentityMap: true, orderBy: isCopied ? { id: "asc" } : { key: "asc" } },
  );
  return boards.map(exportedBoard);
};

/** Returns a board as a document has it. */
export const exportedBoard = ({ key, name, status, definition }: Leaderboard): BoardWithNames => ({
  status: status === "PAUSED" ? "PAUSED" : "ACTIVE",
  leaderboard: { ...definition, key, name, backfill: false },
});

type BoardWithNames = NonNullable<ConfigDocument["leaderboards"]>[number];

type RuleRow = { id: string; key: string; status: RuleStatus; rule: RuleDocument; draft: RuleDocument };

const exportRules = async (
  { db }: Work,
  projectId: string,
  isCopied: boolean,
): Promise<ConfigDocument["rules"]> => {
  const found = await readPages<RuleRow>(async (last) => {
    const after = last ? sql`and r.key > ${last.key}` : sql``;
    const { rows } = await sql<RuleRow>`
      select r.id, r.key, r.status, coalesce(v.definition, r.draft) as rule, r.draft from rules r
      left join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${projectId} and r.status <> 'ARCHIVED' ${after}
      order by r.key limit ${PAGE_ITEMS}`.execute(db);
    return rows;
  });
  if (isCopied) found.sort(byId);
  return found.map(({ status, rule, draft }) => {
    return { status: status === "ARCHIVED" ? "DRAFT" : status, rule, ...(isCopied ? { draft } : {}) };
  });
};
