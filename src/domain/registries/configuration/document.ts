import { z } from "zod";
import { SettingsPatch } from "../../accounts/projects/projects.ts";
import { ReportDocument, REPORTS_MAX } from "../../analytics/reports/saved-reports.ts";
import { type DefinitionKind } from "../../economy/definitions/definitions.ts";
import { NewLeaderboard } from "../../evaluation/boards/definition.ts";
import { RuleDocument } from "../../evaluation/language/document.ts";
import { Zone } from "../../evaluation/language/syntax.ts";
import { CurveInput } from "../../evaluation/xp/levels.ts";
import type { Json } from "../../kernel/events/events.ts";
import { DEFINITION_MAX_BYTES, RULE_MAX_BYTES } from "../../kernel/limits.ts";
import { boundBytes, isLongJson } from "../../kernel/hostile-json.ts";
import { mapInSlices } from "../../kernel/slices.ts";
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

/** Sections whose items have a key, in the order in which an import creates them. */
export const SECTIONS: readonly string[] = [
  ...DEFINITION_KINDS.map(({ plural }) => plural),
  "leaderboards",
  "rules",
  REPORTS,
];
/** Sections that are one value each. */
export const SINGLE = ["timezone", "settings", "levelCurve"] as const;
