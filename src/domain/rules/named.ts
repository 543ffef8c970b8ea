import { sql } from "kysely";
import type { FieldProblem } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";
import { mentionsOf, type RuleDocument } from "../evaluation/language/document.ts";
import { kindOf } from "../evaluation/actions/action-kinds.ts";
import type { FindDefinition } from "../evaluation/actions/action.ts";
import type { Mention, NamedKind } from "../evaluation/language/syntax.ts";

/** The part of a definition that rules depend on. `document` is null for an archived one. */
type KnownDefinition = { document: Json | null };

/** The definitions that rules name, by kind and key. */
export type KnownByName = ReadonlyMap<string, KnownDefinition>;

const nameOf = (kind: NamedKind, key: string): string => `${kind} ${key}`;

type Row = { kind: NamedKind; key: string; document: Json | null };

/** Reads the definitions that rules name, in one statement. */
export const loadNamed = async (
  { db }: Work,
  projectId: string,
  mentions: readonly Mention[],
): Promise<KnownByName> => {
  if (mentions.length === 0) return new Map();
  const keys = `{${[...new Set(mentions.map(({ key }) => `"${key}"`))].join(",")}}`;
  const found = await sql<Row>`
    select kind, key, case when status = 'ACTIVE' then definition end as document from definitions
    where project_id = ${projectId} and key = any(${keys}::text[])
    union all
    select 'leaderboard', key, case when status <> 'ARCHIVED' then definition end from leaderboards
    where project_id = ${projectId} and key = any(${keys}::text[])`.execute(db);
  return new Map(found.rows.map(({ kind, key, document }) => [nameOf(kind, key), { document }]));
};

const missing = ({ kind, key, path }: Mention, known: KnownDefinition | undefined): FieldProblem[] => {
  if (known?.document) return [];
  const isDraft = kind === "quest" || kind === "adventure" ? " or not published" : "";
  const why = known ? `the ${kind} is archived${isDraft}` : `there is no such ${kind}`;
  return [{ field: path, message: `${key}: ${why}` }];
};

/**
 * Returns what keeps a rule from running in a project: named definitions that do not exist, are archived or
 * do not support what the rule does to them.
 */
export const namedProblems = async (
  work: Work,
  projectId: string,
  rule: RuleDocument,
): Promise<FieldProblem[]> => {
  const mentions = mentionsOf(rule);
  return namedProblemsOf(rule, mentions, await loadNamed(work, projectId, mentions));
};

/** As `namedProblems`, given the definitions behind all `mentions` of the rule. */
export const namedProblemsOf = (
  rule: RuleDocument,
  mentions: readonly Mention[],
  known: KnownByName,
): FieldProblem[] => {
  const find: FindDefinition = (kind, key) => known.get(nameOf(kind, key))?.document ?? undefined;
  const unknown = mentions.flatMap((mention) =>
    missing(mention, known.get(nameOf(mention.kind, mention.key))),
  );
  const refused = rule.actions.flatMap((action, i) =>
    (kindOf(action.type)?.demands(action, find) ?? []).map(([field, message]) => ({
      field: `actions.${i}.${field}`,
      message,
    })),
  );
  return [...unknown, ...refused];
};
