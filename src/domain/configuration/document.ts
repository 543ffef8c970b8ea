import { z } from "zod";
import { DEFINITION_KINDS } from "../definitions/kinds.ts";
import type { Json } from "../events.ts";
import { LeaderboardDefinition } from "../leaderboards/definition.ts";
import { CurveInput } from "../progression/levels.ts";
import { SettingsPatch } from "../projects/settings.ts";
import { RuleDocument } from "../rules/language/document.ts";
import { Zone } from "../rules/language/syntax.ts";

/** What the document says of itself; another one is refused. */
export const CONFIG_FORMAT = "laurel/1";
/** Items of one section. */
const SECTION_MAX = 2_000;

/** How a rule stands after an import: ACTIVE and SHADOW publish it. */
export const RULE_STATES = ["DRAFT", "ACTIVE", "SHADOW", "PAUSED"] as const;

const ExportedRule = z.strictObject({ status: z.enum(RULE_STATES).default("DRAFT"), rule: RuleDocument });
const ExportedBoard = z.strictObject({
  status: z.enum(["ACTIVE", "PAUSED"]).default("ACTIVE"),
  leaderboard: LeaderboardDefinition,
});

const sections = Object.fromEntries(
  DEFINITION_KINDS.map(({ plural, schema }) => [plural, z.array(schema).max(SECTION_MAX).optional()]),
);

/**
 * All definitions of a project. A section that is absent is left alone; one that is there names everything of
 * its kind, which matters when an import prunes.
 */
export const ConfigDocument = z
  .strictObject({
    format: z.literal(CONFIG_FORMAT),
    timezone: Zone.optional(),
    settings: SettingsPatch.optional(),
    levelCurve: CurveInput.optional(),
    ...sections,
    leaderboards: z.array(ExportedBoard).max(SECTION_MAX).optional(),
    rules: z.array(ExportedRule).max(SECTION_MAX).optional(),
  })
  .superRefine((document, context) => {
    for (const [section, items] of Object.entries(document)) {
      if (!Array.isArray(items)) continue;
      const seen = new Set<string>();
      items.forEach((item: unknown, i) => {
        const key = keyOf(item as Json);
        if (seen.has(key))
          context.addIssue({ code: "custom", path: [section, i, "key"], message: `"${key}" is there twice` });
        seen.add(key);
      });
    }
  })
  .meta({ id: "ConfigDocument" });

export type ConfigDocument = {
  format: typeof CONFIG_FORMAT;
  timezone?: string | undefined;
  settings?: SettingsPatch | undefined;
  levelCurve?: CurveInput | undefined;
  leaderboards?: z.output<typeof ExportedBoard>[] | undefined;
  rules?: z.output<typeof ExportedRule>[] | undefined;
} & Record<string, unknown>;

/** The key of an item of any section. */
export const keyOf = (item: Json): string => {
  const inner = (item["rule"] ?? item["leaderboard"] ?? item) as { key: string };
  return inner.key;
};

/** The definitions of one kind in a document; undefined when it leaves them alone. */
export const sectionOf = (document: ConfigDocument, plural: string): readonly Json[] | undefined =>
  document[plural] as readonly Json[] | undefined;
