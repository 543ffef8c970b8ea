import { sql } from "kysely";
import type { FieldProblem } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";
import type { RuleDocument } from "../evaluation/language/document.ts";
import type { Mention, NamedKind } from "../evaluation/language/needs.ts";
import { mentionsOf } from "../evaluation/language/mentions.ts";

/** A definition as far as rules depend on it. `document` is null of one that is archived. */
type Known = { document: Json | null };

/** What rules name, by kind and key. */
export type KnownByName = ReadonlyMap<string, Known>;

const nameOf = (kind: NamedKind, key: string): string => `${kind} ${key}`;

const isObject = (value: unknown): value is Json => value !== null && typeof value === "object";

type Row = { kind: NamedKind; key: string; document: Json | null };

/** Reads what rules name: one statement. */
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

const missing = ({ kind, key, path }: Mention, known: Known | undefined): FieldProblem[] => {
  if (known?.document) return [];
  const why = known ? `the ${kind} is archived` : `there is no such ${kind}`;
  return [{ field: path, message: `${key}: ${why}` }];
};

/** What an action asks of a definition beyond being there. */
type Demand = (action: Json, find: (kind: NamedKind, key: unknown) => Json | undefined) => [string, string][];

const segmentDemand: Demand = (action, find) =>
  ["addToSegments", "removeFromSegments"].flatMap((field): [string, string][] => {
    const keys = Array.isArray(action[field]) ? (action[field] as unknown[]) : [];
    return keys.flatMap((key, i): [string, string][] =>
      find("segment", key)?.["kind"] === "DYNAMIC"
        ? [[`${field}.${i}`, `${String(key)}: the members of a DYNAMIC segment follow from its definition`]]
        : [],
    );
  });

const scoreDemand: Demand = ({ leaderboardKey }, find) => {
  const metric = find("leaderboard", leaderboardKey)?.["metric"];
  if (!isObject(metric) || metric["source"] === "CUSTOM") return [];
  const message = `${String(leaderboardKey)}: a leaderboard of ${String(metric["source"])} takes no scores`;
  return [["leaderboardKey", message]];
};

const badgeDemand: Demand = ({ badgeKey, tier }, find) => {
  const tiers = find("badge", badgeKey)?.["tiers"];
  if (typeof tier !== "number" || !Array.isArray(tiers) || tier <= tiers.length) return [];
  return [["tier", `the badge ${String(badgeKey)} has ${tiers.length} tiers`]];
};

const DEMANDS: Readonly<Record<string, Demand>> = {
  update_player: segmentDemand,
  submit_score: scoreDemand,
  update_badge: badgeDemand,
};

/**
 * What keeps a rule from running in a project: definitions that it names and that are not there, are archived
 * or do not take what the rule does to them.
 */
export const namedProblems = async (
  work: Work,
  projectId: string,
  rule: RuleDocument,
): Promise<FieldProblem[]> => {
  const mentions = mentionsOf(rule);
  return namedProblemsOf(rule, mentions, await loadNamed(work, projectId, mentions));
};

/** As `namedProblems`, with what is known of all `mentions` of the rule. */
export const namedProblemsOf = (
  rule: RuleDocument,
  mentions: readonly Mention[],
  known: KnownByName,
): FieldProblem[] => {
  const find = (kind: NamedKind, key: unknown): Json | undefined =>
    known.get(nameOf(kind, String(key)))?.document ?? undefined;
  const unknown = mentions.flatMap((mention) =>
    missing(mention, known.get(nameOf(mention.kind, mention.key))),
  );
  const refused = rule.actions.flatMap((action, i) =>
    (DEMANDS[action.type]?.(action as Json, find) ?? []).map(([field, message]) => ({
      field: `actions.${i}.${field}`,
      message,
    })),
  );
  return [...unknown, ...refused];
};
