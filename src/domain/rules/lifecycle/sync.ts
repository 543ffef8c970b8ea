import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import { conflict } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { mentionsOf, type RuleDocument } from "../../evaluation/language/document.ts";
import { ACTIVE_RULES_MAX } from "./publishing.ts";
import { loadNamed, namedProblemsOf } from "../named.ts";
import { Rule, RULES_MAX, RULES_WITH_ARCHIVED_MAX, RuleVersion } from "../rules.ts";
import { planSchedules } from "../schedules.ts";

type Sync = { from: string; to: string; actor: string };
type Report = { count: number; skipped: { key: string; reason: string }[] };
/** The published versions of rules of both projects, by the rule's id. */
type Published = ReadonlyMap<string, RuleDocument>;
type Step = { source: Rule; published: Published; sync: Sync };

/**
 * Copies the rules of one project to another, by key: drafts, and published versions as further versions.
 * Rules that only the target has stay, and so do those that name what is archived there. A rule that the
 * source has never published keeps its running version.
 * Must be called under the config locks of both.
 * @throws CONFLICT RULE_LIMIT
 */
export const syncRules = async (work: Work, sync: Sync): Promise<Report> => {
  const { em } = work;
  const sources = await em.find(Rule, { projectId: sync.from }, { orderBy: { id: "asc" } });
  const own = await em.find(Rule, { projectId: sync.to });
  const published = await readPublished(work, sync);
  const refused = await findRefused(work, sync, { sources, published });
  const byKey = new Map(own.map((rule) => [rule.key, rule]));
  const report: Report = { count: 0, skipped: [] };
  const versions: Version[] = [];
  const touched: Rule[] = [];
  const isGone = ({ key }: Rule): boolean => byKey.get(key)?.status === "ARCHIVED";
  for (const source of sources.filter((one) => one.status !== "ARCHIVED" || !isGone(one))) {
    const rule = byKey.get(source.key);
    const step = { source, published, sync };
    const reason = isGone(source) ? "it is archived in the sandbox" : refused.get(source.id);
    if (reason !== undefined) {
      report.skipped.push({ key: source.key, reason });
      continue;
    }
    const changed = rule ? changeRule(work, rule, step) : addRule(work, step);
    if (!changed) continue;
    report.count++;
    touched.push(changed.rule);
    if (changed.version) versions.push(changed.version);
  }
  // Versions reference their rules.
  await em.flush();
  for (const version of versions) em.create(RuleVersion, version);
  await em.flush();
  for (const rule of touched) await planSchedules(work, rule);
  await checkRoom(work, sync.to);
  return report;
};

const readPublished = async ({ db }: Work, { from, to }: Sync): Promise<Published> => {
  const found = await sql<{ id: string; definition: RuleDocument }>`
    select r.id, v.definition from rules r
    join rule_versions v on v.rule_id = r.id and v.version = r.published_version
    where r.project_id = ${from}::uuid or r.project_id = ${to}::uuid`.execute(db);
  return new Map(found.rows.map(({ id, definition }) => [id, definition]));
};

/** Finds rules that could not be published in the target: what they name is not there. @returns why, by id */
const findRefused = async (
  work: Work,
  { to }: Sync,
  { sources, published }: { sources: readonly Rule[]; published: Published },
): Promise<Map<string, string>> => {
  const running = sources.flatMap(({ id, status }) => {
    const rule = status === "ACTIVE" || status === "SHADOW" ? published.get(id) : undefined;
    return rule ? [{ id, rule, mentions: mentionsOf(rule) }] : [];
  });
  const known = await loadNamed(
    work,
    to,
    running.flatMap(({ mentions }) => mentions),
  );
  return new Map(
    running.flatMap(({ id, rule, mentions }) => {
      const [problem] = namedProblemsOf(rule, mentions, known);
      return problem ? [[id, `${problem.field}: ${problem.message}`]] : [];
    }),
  );
};

type Version = {
  ruleId: string;
  version: number;
  definition: RuleDocument;
  changeNote: string;
  publishedBy: string;
  publishedAt: Date;
};
type Changed = { rule: Rule; version: Version | undefined } | undefined;

const addRule = ({ em, now }: Work, { source, published, sync }: Step): Changed => {
  if (source.status === "ARCHIVED") return undefined;
  const definition = published.get(source.id);
  const rule = em.create(Rule, {
    id: newId(),
    projectId: sync.to,
    key: source.key,
    name: source.name,
    status: source.status,
    pauseReason: source.pauseReason ?? null,
    draft: structuredClone(source.draft),
    draftVersion: 1,
    publishedVersion: definition ? 1 : null,
    createdBy: sync.actor,
    createdAt: now,
    updatedAt: now,
  });
  return { rule, version: definition && versionOf(rule, definition, { now, by: sync.actor }) };
};

/** Undefined when the rule needs no change. */
const changeRule = ({ now }: Work, rule: Rule, step: Step): Changed => {
  const { source, published, sync } = step;
  const isStatusNew = changeStatus(rule, source);
  const isDraftNew = source.status !== "ARCHIVED" && changeDraft(rule, source);
  const definition = source.status === "ARCHIVED" ? undefined : published.get(source.id);
  const isNew = definition !== undefined && !isDeepStrictEqual(published.get(rule.id), definition);
  if (!isNew && !isStatusNew && !isDraftNew) return undefined;
  rule.updatedAt = now;
  if (!isNew) return { rule, version: undefined };
  rule.publishedVersion = (rule.publishedVersion ?? 0) + 1;
  return { rule, version: versionOf(rule, definition, { now, by: sync.actor }) };
};

const changeStatus = (rule: Rule, { status, pauseReason }: Rule): boolean => {
  // A rule that was published once can never be a DRAFT again.
  if (status === "DRAFT" || rule.status === status) return false;
  Object.assign(rule, { status, pauseReason: pauseReason ?? null });
  return true;
};

const changeDraft = (rule: Rule, { name, draft }: Rule): boolean => {
  if (rule.name === name && isDeepStrictEqual(rule.draft, draft)) return false;
  Object.assign(rule, { name, draft: structuredClone(draft), draftVersion: rule.draftVersion + 1 });
  return true;
};

const versionOf = (
  rule: Rule,
  definition: RuleDocument,
  { now, by }: { now: Date; by: string },
): Version => ({
  ruleId: rule.id,
  version: rule.publishedVersion ?? 1,
  definition: structuredClone(definition),
  changeNote: "Copied from the project",
  publishedBy: by,
  publishedAt: now,
});

const checkRoom = async ({ em }: Work, projectId: string): Promise<void> => {
  const all = await em.count(Rule, { projectId });
  const kept = await em.count(Rule, { projectId, status: { $ne: "ARCHIVED" } });
  const active = await em.count(Rule, { projectId, status: { $in: ["ACTIVE", "SHADOW"] } });
  if (all <= RULES_WITH_ARCHIVED_MAX && kept <= RULES_MAX && active <= ACTIVE_RULES_MAX) return;
  const limits = `${RULES_MAX} rules, ${ACTIVE_RULES_MAX} of them active`;
  throw conflict("RULE_LIMIT", `together with its own, the sandbox would have more than ${limits}`);
};
