import { sql } from "kysely";
import { audit } from "../../accounts/audit/audit.ts";
import { forgetProjects, Project } from "../../accounts/projects/project.ts";
import { readReports } from "../../analytics/reports/saved-reports.ts";
import { checkRoom } from "../../economy/definitions/definitions.ts";
import { lettingLevelsFall } from "../../economy/levels/relevel.ts";
import type { DomainError } from "../../kernel/errors.ts";
import { atProjectTime, awaitConfigLane, changeConfig, shareConfig, type Work } from "../../kernel/work.ts";
import { DEFINITION_KINDS } from "../definition-kinds.ts";
import { type ConfigChange, diffConfig } from "./diff.ts";
import { type ConfigDocument, REPORTS, SECTIONS } from "./document.ts";
import { exportConfig } from "./export.ts";
import { applyChanges } from "./import.ts";

/** A copy from a project to its sandbox by `actor`. */
type Sync = { from: string; to: string; actor: string };

/** A definition of the sandbox that stays unchanged, and why. */
type Skipped = { type: string; key: string; reason: string };

type Synced = {
  /** Number of created or changed definitions. */
  rules: number;
  leaderboards: number;
  levelCurve: number;
  analyticsReports: number;
  /** Of all other kinds, by the plural of the kind; archived ones too. */
  definitions: Record<string, number>;
  skipped: Skipped[];
  /** Periods of boards that have no entries any more: their rank indexes can be dropped. */
  closedPeriodIds: string[];
};

/** What is skipped of each section, in answers. */
const TYPES: ReadonlyMap<string, string> = new Map([
  ...DEFINITION_KINDS.map(({ plural, kind }) => [plural, kind] as const),
  ["leaderboards", "leaderboard"],
  ["rules", "rule"],
  [REPORTS, "analytics_report"],
]);

/** Reasons of a 409 for a board whose scores would have another meaning. */
const OF_MEANING: ReadonlySet<string | undefined> = new Set(["LEADERBOARD_FIXED", "TIES_FIXED"]);
const OTHER_MEANING = "its scores mean something else in the sandbox; archive it there and use another key";

/**
 * Copies the definitions of a project to its sandbox: settings, level curve, definitions of every kind,
 * leaderboards, rules and saved reports, by key. It imports what the project exports, with drafts of rules;
 * what is archived in the project is archived, too. What only the sandbox has stays, and so do its players and
 * scores, what is archived there, and what the sandbox refuses. No batch of the sandbox evaluates meanwhile,
 * and nobody changes the project's definitions: the copy is a consistent snapshot.
 * @throws CONFLICT RULE_LIMIT, LEADERBOARD_LIMIT, DEFINITION_LIMIT, REPORT_LIMIT when the sandbox has too
 * many of its own; VALIDATION_ERROR RULE_LOOP when rules of its own and those of the project could trigger one
 * another
 */
export const syncSandbox = async (outer: Work, sync: Sync): Promise<Synced> => {
  const { from, to, actor } = sync;
  awaitConfigLane(outer, to);
  // In the locking order of batches, to prevent deadlocks.
  for (const id of [from, to].toSorted())
    await (id === to ? changeConfig(outer, id) : shareConfig(outer, [id]));
  const { project, sandbox } = await copySettings(outer, sync);
  const { tenantId } = project;
  const work = atProjectTime(outer, sandbox);
  const { document, changes, archived } = await compare(work, sync);
  const left = archived.map((change) => ({ change, reason: "it is archived in the sandbox" }));
  const skip = (change: ConfigChange, { reason, message }: DomainError): void =>
    void left.push({ change, reason: OF_MEANING.has(reason) ? OTHER_MEANING : message });
  const questions = new Map(
    (await readReports(work, from)).map(({ document: { key }, question }) => [key, question]),
  );
  const closedPeriodIds: string[] = [];
  const { signal } = new AbortController();
  const copied = { from, skip, closedPeriodIds };
  if (changes.length > 0) {
    const given = { document, questions, tenantId, actor, signal, copied };
    await applyChanges(work, to, { changes, given });
    // What could not be archived has left no room.
    for (const kind of DEFINITION_KINDS) await checkRoom(work, to, kind, 1);
  }
  const unchanged = new Set(left.map(({ change }) => change));
  const countOf = (section: string): number =>
    changes.filter((change) => change.section === section && !unchanged.has(change)).length;
  const counts = {
    rules: countOf("rules"),
    leaderboards: countOf("leaderboards"),
    levelCurve: countOf("levelCurve"),
    analyticsReports: countOf(REPORTS),
    definitions: Object.fromEntries(DEFINITION_KINDS.map(({ plural }) => [plural, countOf(plural)])),
  };
  const skipped = left
    .toSorted((a, b) => SECTIONS.indexOf(a.change.section) - SECTIONS.indexOf(b.change.section))
    .map(({ change: { section, key }, reason }) => ({ type: TYPES.get(section)!, key, reason }));
  const target = { type: "project", id: to };
  const data = { projectId: from, ...counts, skipped: skipped.length };
  await audit(work, { action: "sandbox.synced", target, tenantId, data });
  work.afterCommit(forgetProjects);
  return { ...counts, skipped, closedPeriodIds };
};

type Compared = {
  document: ConfigDocument;
  changes: ConfigChange[];
  /** Of what is archived in the sandbox, and stays so. */
  archived: ConfigChange[];
};

/** Returns what of a project, besides its settings, is to become of its sandbox. */
const compare = async (work: Work, { from, to }: Sync): Promise<Compared> => {
  const own = await exportConfig(work, to, { isCopied: true });
  const ownRules = new Map(own.rules!.map((one) => [one.rule.key, one]));
  const { timezone: _, settings: __, ...source } = await exportConfig(work, from, { isCopied: true });
  const rules = source.rules!.map((one) => {
    const known = ownRules.get(one.rule.key);
    // What the project has never published keeps its running version: only its draft is copied.
    const isKept = one.status === "DRAFT" && known !== undefined && known.status !== "DRAFT";
    return isKept ? { ...one, status: known.status, rule: known.rule } : one;
  });
  const document = { ...source, rules };
  const ended = await readEnded(work, { from, to });
  const changes = await diffConfig(own, { document, prune: false });
  for (const { section, key, isKept } of ended)
    if (!isKept) changes.push({ section, key, action: "ARCHIVE", fields: [] });
  const kept = new Set(ended.filter(({ isKept }) => isKept).map(nameOf));
  const [archived, others] = [true, false].map((isKept) =>
    changes.filter((change) => kept.has(nameOf(change)) === isKept),
  );
  return { document, changes: others!, archived: archived! };
};

type Ended = {
  section: string;
  key: string;
  /** Whether the sandbox has it archived already. */
  isKept: boolean;
};

const nameOf = ({ section, key }: { section: string; key: string }): string => `${section} ${key}`;

/** Returns what of a sandbox is archived there, or in its project. */
const readEnded = async ({ db }: Work, { from, to }: { from: string; to: string }): Promise<Ended[]> => {
  const both = sql`where project_id in (${from}::uuid, ${to}::uuid)`;
  const { rows } = await sql<{ type: string; key: string; isKept: boolean }>`
    with those as (
      select project_id, kind as type, key, status = 'ARCHIVED' as is_ended from definitions ${both}
      union all select project_id, 'leaderboard', key, status = 'ARCHIVED' from leaderboards ${both}
      union all select project_id, 'rule', key, status = 'ARCHIVED' from rules ${both})
    select type, key, o.is_ended as "isKept" from those o
    left join (select type, key, is_ended from those where project_id = ${from}::uuid) s using (type, key)
    where o.project_id = ${to}::uuid and (o.is_ended or s.is_ended) order by key`.execute(db);
  return SECTIONS.flatMap((section) =>
    rows.flatMap(({ type, ...one }) => (type === TYPES.get(section) ? [{ section, ...one }] : [])),
  );
};

type SandboxPair = { project: Project; sandbox: Project };

const copySettings = async (work: Work, { from, to, actor }: Sync): Promise<SandboxPair> => {
  const { em, now } = work;
  // Read again: the state read before the locks may have changed since.
  const project = await em.findOneOrFail(Project, { id: from }, { refresh: true });
  const sandbox = await em.findOneOrFail(Project, { id: to }, { refresh: true });
  const { timezone, settings, allowedOrigins } = project;
  await lettingLevelsFall(work, { project: sandbox, actor }, async () => {
    Object.assign(sandbox, {
      timezone,
      settings: { ...settings },
      allowedOrigins: [...allowedOrigins],
      updatedAt: now,
    } satisfies Partial<Project>);
    await em.flush();
  });
  return { project, sandbox };
};
