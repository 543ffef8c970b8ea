import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import { z } from "zod";
import { Project, settingsOf } from "../../accounts/projects/project.ts";
import { SettingsPatch } from "../../accounts/projects/projects.ts";
import { readReports, ReportDocument, REPORTS_MAX } from "../../analytics/reports/saved-reports.ts";
import { type DefinitionKind, withoutSecrets, withSecretsOf } from "../../economy/definitions/definitions.ts";
import { NewLeaderboard } from "../../evaluation/boards/definition.ts";
import { RuleDocument } from "../../evaluation/language/document.ts";
import { Zone } from "../../evaluation/language/syntax.ts";
import type { Phase } from "../../evaluation/live.ts";
import type { RuleStatus } from "../../evaluation/running/outcome.ts";
import { CurveInput } from "../../evaluation/xp/levels.ts";
import { DomainError, notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { DEFINITION_MAX_BYTES, RULE_MAX_BYTES } from "../../kernel/limits.ts";
import { boundBytes, isLongJson } from "../../kernel/hostile-json.ts";
import { mapInSlices, nextSlice } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { getCurve } from "../../progression/level-curves.ts";
import { Leaderboard } from "../../progression/load-plan.ts";
import { DEFINITION_KINDS } from "../definition-kinds.ts";

/** The document's format identifier; any other one is refused. */
export const CONFIG_FORMAT = "laurel/1";
/** Maximum number of items per section. */
const SECTION_MAX = 2_000;
/** The section of saved reports. */
export const REPORTS = "analyticsReports";

/** Characters that no valid item has: the largest one has half of them as bytes of JSON. */
const ITEM_CHARS_MAX = 2 * Math.max(RULE_MAX_BYTES, DEFINITION_MAX_BYTES);
const TOO_LARGE = {
  code: "custom",
  message: `must have at most ${DEFINITION_MAX_BYTES} bytes of JSON`,
} as const;

/** Maximum number of reported problems per section; its other items are not read. */
const ISSUES_MAX = 100;

/** Status of a rule after an import: ACTIVE and SHADOW publish it. */
const RULE_STATES = ["DRAFT", "ACTIVE", "SHADOW", "PAUSED"] as const;

const ExportedRule = z.strictObject({ status: z.enum(RULE_STATES).default("DRAFT"), rule: RuleDocument });
const ExportedBoard = z.strictObject({
  status: z.enum(["ACTIVE", "PAUSED"]).default("ACTIVE"),
  leaderboard: NewLeaderboard,
});

const Status = z
  .enum(["ACTIVE", "PAUSED", "ENDED"])
  .optional()
  .describe("Without one it stays as it is, and runs where it is new");
const STATUS_BYTES = '"status":"ACTIVE",'.length;

/** Of a kind with drafts, also whether what is published runs. */
const itemOf = ({ schema, unbounded, hasDrafts }: DefinitionKind): z.ZodType =>
  hasDrafts
    ? boundBytes(
        (unbounded as unknown as z.ZodObject).safeExtend({ status: Status }),
        DEFINITION_MAX_BYTES + STATUS_BYTES,
      )
    : schema;

/** Schemas of each section's items. */
const ITEMS: Readonly<Record<string, z.ZodType>> = {
  ...Object.fromEntries(DEFINITION_KINDS.map((kind) => [kind.plural, itemOf(kind)])),
  leaderboards: ExportedBoard,
  rules: ExportedRule,
  [REPORTS]: ReportDocument,
};

const maxOf = (section: string): number => (section === REPORTS ? REPORTS_MAX : SECTION_MAX);

const head = {
  format: z.literal(CONFIG_FORMAT),
  timezone: Zone.optional(),
  settings: SettingsPatch.optional(),
  levelCurve: CurveInput.optional(),
};

/**
 * All definitions of a project. An absent section is left unchanged; a present one names everything of its
 * kind, which matters when an import prunes. Must be read with `readConfigDocument`.
 */
export const ConfigDocument = z
  .strictObject({
    ...head,
    ...Object.fromEntries(
      Object.entries(ITEMS).map(([name, item]) => [name, z.array(item).max(maxOf(name)).optional()]),
    ),
  })
  .meta({ id: "ConfigDocument" });

export type ConfigDocument = {
  format: typeof CONFIG_FORMAT;
  timezone?: string | undefined;
  settings?: SettingsPatch | undefined;
  levelCurve?: CurveInput | undefined;
  leaderboards?: z.output<typeof ExportedBoard>[] | undefined;
  rules?: z.output<typeof ExportedRule>[] | undefined;
  analyticsReports?: ReportDocument[] | undefined;
} & Record<string, unknown>;

type Issue = z.core.$ZodIssue;

type Apart = { rest: Json; sections: [name: string, items: readonly unknown[]][] };

/** Returns the document with empty sections, and these, by name; what is too long stays where it is. */
const apart = (document: Json): Apart => {
  const sections = Object.entries(document).filter(
    (entry): entry is [string, unknown[]] =>
      Object.hasOwn(ITEMS, entry[0]) && isArray(entry[1]) && entry[1].length <= maxOf(entry[0]),
  );
  return { rest: { ...document, ...Object.fromEntries(sections.map(([name]) => [name, []])) }, sections };
};

const isArray = (value: unknown): value is unknown[] => Array.isArray(value);

const readSection = async (
  section: string,
  items: readonly unknown[],
): Promise<{ read: unknown[]; issues: Issue[] }> => {
  const issues: Issue[] = [];
  const seen = new Set<string>();
  const note = (path: PropertyKey[], issue: Issue): void =>
    void issues.push({ ...issue, path: [section, ...path] });
  const read = await mapInSlices(items, (item, place): unknown => {
    if (issues.length > ISSUES_MAX) return undefined;
    if (isLongJson(item, ITEM_CHARS_MAX)) return note([place], { ...TOO_LARGE, input: item, path: [] });
    const parsed = ITEMS[section]!.safeParse(item);
    if (!parsed.success) return parsed.error.issues.forEach((issue) => note([place, ...issue.path], issue));
    const key = keyOf(parsed.data as Json);
    if (seen.has(key)) note([place, "key"], { code: "custom", path: [], message: `"${key}" is there twice` });
    seen.add(key);
    return parsed.data;
  });
  return { read, issues };
};

/**
 * Parses a document by the schema ConfigDocument, in slices: a large one contains thousands of definitions.
 * @throws ZodError whose paths begin in the document
 */
export const readConfigDocument = async (given: unknown): Promise<ConfigDocument> => {
  if (given === null || typeof given !== "object" || isArray(given)) return ConfigDocument.parse(given);
  const { rest, sections } = apart(given as Json);
  const parsed = ConfigDocument.safeParse(rest);
  const issues: Issue[] = [...(parsed.error?.issues ?? [])];
  const document: Json = { ...parsed.data };
  for (const [section, items] of sections) {
    const { read, issues: found } = await readSection(section, items);
    document[section] = read;
    issues.push(...found);
  }
  if (issues.length > 0) throw new z.ZodError(issues);
  return document as ConfigDocument;
};

/** Returns the key of an item of any section. */
export const keyOf = (item: Json): string => {
  const inner = (item["rule"] ?? item["leaderboard"] ?? item) as { key: string };
  return inner.key;
};

/** Returns the definitions of one kind in a document; undefined when it leaves them unchanged. */
export const sectionOf = (document: ConfigDocument, plural: string): readonly Json[] | undefined =>
  document[plural] as readonly Json[] | undefined;

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

/** Reports alone are deleted: nothing of players hangs on them, and nothing else is archived of them. */
export const CONFIG_ACTIONS = ["CREATE", "UPDATE", "ARCHIVE", "DELETE"] as const;

/** An import's change to one definition. `fields`: the differing ones. */
export type ConfigChange = {
  section: string;
  key: string;
  action: (typeof CONFIG_ACTIONS)[number];
  fields: string[];
};

/** Sections whose items have a key, in the order in which an import creates them. */
export const SECTIONS: readonly string[] = [
  ...DEFINITION_KINDS.map(({ plural }) => plural),
  "leaderboards",
  "rules",
  REPORTS,
];
/** Parts of a document that are a single object. */
/** Sections that are one value each. */
export const SINGLE = ["timezone", "settings", "levelCurve"] as const;

/**
 * Computes the changes that turn a project in state `current` into what a document describes. Items that the
 * document does not name are archived, and reports deleted, only with `prune`. Computed in slices.
 * @param current the result of `exportConfig`
 */
export const diffConfig = async (
  current: ConfigDocument,
  { document, prune }: { document: ConfigDocument; prune: boolean },
): Promise<ConfigChange[]> => {
  const changes: ConfigChange[] = [];
  for (const name of SINGLE) {
    const wanted = document[name];
    const now = current[name];
    if (wanted === undefined) continue;
    const fields = typeof wanted === "object" ? differing(wanted, now as Json) : [name];
    const isSame = typeof wanted === "object" ? fields.length === 0 : wanted === now;
    if (!isSame) changes.push({ section: name, key: name, action: "UPDATE", fields });
  }
  for (const section of SECTIONS) {
    const wanted = sectionOf(document, section);
    if (wanted)
      changes.push(...(await diffSection(section, { wanted, now: sectionOf(current, section)!, prune })));
  }
  return changes;
};

/**
 * Returns the fields of `wanted` that differ in `now`; a partial object is compared only in the fields that
 * it names.
 */
const differing = (wanted: Json, now: Json): string[] =>
  Object.keys(wanted).filter((field) => {
    const value = wanted[field];
    if (value === undefined) return false;
    const isPart = value !== null && typeof value === "object" && !Array.isArray(value);
    const known = now[field];
    const full = isPart && known !== null && typeof known === "object" ? { ...known, ...value } : value;
    return !isDeepStrictEqual(full, known);
  });

type Sections = { wanted: readonly Json[]; now: readonly Json[]; prune: boolean };

const diffSection = async (section: string, { wanted, now, prune }: Sections): Promise<ConfigChange[]> => {
  const known = new Map(now.map((item) => [keyOf(item), item]));
  const changes: ConfigChange[] = [];
  await mapInSlices(wanted, (item) => {
    const key = keyOf(item);
    const before = known.get(key);
    const fields = before ? itemFields(item, before) : [];
    if (!before) changes.push({ section, key, action: "CREATE", fields });
    else if (fields.length > 0) changes.push({ section, key, action: "UPDATE", fields });
  });
  if (!prune) return changes;
  const named = new Set(wanted.map(keyOf));
  for (const key of known.keys())
    if (!named.has(key)) changes.push({ section, key, action: goneBy(section), fields: [] });
  return changes;
};

const goneBy = (section: string): ConfigChange["action"] => (section === REPORTS ? "DELETE" : "ARCHIVE");

/** Stored JSON has no undefined; parsed documents may have. */
const plain = (value: Json): Json => JSON.parse(JSON.stringify(value)) as Json;

/** Returns the fields in which an item of a document differs from what the project has. */
export const itemFields = (wanted: Json, before: Json): string[] => {
  const right = flat(before);
  // A quest or an adventure without a status stays as it is.
  const left: Json = { status: right["status"], ...flat(wanted) };
  if (wanted["leaderboard"]) left["period"] = zonedAs(left["period"] as Json, right["period"] as Json);
  // Schedules of rules have no zone.
  if (wanted["report"] && left["schedule"] && right["schedule"])
    left["schedule"] = zonedAs(left["schedule"] as Json, right["schedule"] as Json);
  return [...new Set([...Object.keys(left), ...Object.keys(right)])].filter(
    (field) => !isDeepStrictEqual(left[field], right[field]),
  );
};

/**
 * The calendar of a board, and the zone of a report's schedule, are chosen when that is made: a period or a
 * schedule that says nothing of them keeps them.
 */
const zonedAs = (wanted: Json, before: Json): Json => {
  const kept = Object.entries(before).filter(([field]) => CALENDAR_FIELDS.has(field));
  return { ...Object.fromEntries(kept), ...wanted };
};
const CALENDAR_FIELDS: ReadonlySet<string> = new Set(["timezone", "weekStartsOn", "dayStartsAtMinutes"]);

/** `backfill` is an instruction and not a property: it makes no difference afterwards. */
const flat = (item: Json): Json => {
  const { rule, leaderboard, status, ...own } = item as { rule?: Json; leaderboard?: Json; status?: unknown };
  const { backfill: _order, ...board } = leaderboard ?? {};
  return plain({ ...own, ...rule, ...board, ...(status === undefined ? {} : { status }) });
};

/** Returns the error of a single change with message and fields prefixed by section and key. */
export const namedError = (error: unknown, { section, key }: ConfigChange): unknown => {
  if (!(error instanceof DomainError)) return error;
  const { code, message, details, reason } = error;
  return new DomainError(code, `${section} ${key}: ${message}`, {
    details: details.map(({ field, message: text }) => ({
      field: `${section}.${key}.${field}`,
      message: text,
    })),
    ...(reason === undefined ? {} : { reason }),
  });
};

/** Is told of a change that is refused, and left out. */
export type Skip = (change: ConfigChange, error: DomainError) => void;

/**
 * Handles what a change throws: `skip` is told of what is refused; a limit concerns all of them together.
 * @throws namedError of anything else
 */
export const skipOrThrow = (error: unknown, change: ConfigChange, skip?: Skip): void => {
  if (!skip || !(error instanceof DomainError) || error.reason?.endsWith("_LIMIT"))
    throw namedError(error, change);
  skip(change, error);
};

/** Runs the work of one change of an import. @returns whether it is made @throws as `skipOrThrow` */
export const naming = async (change: ConfigChange, run: () => unknown, skip?: Skip): Promise<boolean> => {
  try {
    await run();
    return true;
  } catch (error) {
    skipOrThrow(error, change, skip);
    return false;
  }
};
