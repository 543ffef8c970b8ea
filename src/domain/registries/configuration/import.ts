import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import {
  checkReport,
  checkRuleOf,
  deleteReport,
  putReport,
  type ReportDocument,
} from "../../analytics/reports/saved-reports.ts";
import type { StoredQuestion } from "../../analytics/reports/schedule.ts";
import { UnknownReference, unshareDefinitions } from "../../economy/definitions/references.ts";
import { changeRunning } from "../../economy/definitions/running.ts";
import { changeProject } from "../../economy/levels/relevel.ts";
import {
  CLEARED_FIELDS,
  type Definition,
  type LeaderboardPatch,
  type NewLeaderboard,
} from "../../evaluation/boards/definition.ts";
import { inCalendar, windowsOf } from "../../evaluation/boards/period.ts";
import type { Phase } from "../../evaluation/live.ts";
import { ADMINS, approvalRequired, type Caller } from "../../kernel/caller.ts";
import { conflict, type DomainError, forbidden } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { changeConfig, type Transact, type Work } from "../../kernel/work.ts";
import {
  archiveLeaderboard,
  createLeaderboard,
  patchLeaderboard,
  pauseLeaderboard,
  restoreLeaderboard,
  resumeLeaderboard,
} from "../../leaderboards/leaderboards.ts";
import { putCurve } from "../../progression/level-curves.ts";
import { Leaderboard } from "../../progression/load-plan.ts";
import { type ConfigChange, diffConfig, itemFields } from "./diff.ts";
import { naming, type Copied } from "./import-change.ts";
import { type ConfigDocument, keyOf, REPORTS, SINGLE, sectionOf } from "./document.ts";
import { exportConfig, exportedBoard, withSecretsFrom } from "./export.ts";
import {
  finishDefinitions,
  importDefinitions,
  isDefinitions,
  type WantedDefinition,
} from "./import-definitions.ts";
import { importRules, namedLoop } from "./import-rules.ts";

/** The questions of a document's reports by key, as their operations have parsed them. */
export type ReportQuestions = ReadonlyMap<string, StoredQuestion>;

/** A report to create or change, with its target state. */
type WantedReport = { change: ConfigChange; wanted: ReportDocument };

type ReportImport = Pick<Applied, "questions" | "actor" | "signal" | "copied"> & {
  wanted: readonly WantedReport[];
  deleted: readonly ConfigChange[];
};

/** Fields of a report without which its question is the same. */
const BESIDE: ReadonlySet<string> = new Set(["name", "description", "schedule"]);

const isAskedAnew = ({ action, fields }: ConfigChange): boolean =>
  action === "CREATE" || fields.some((field) => !BESIDE.has(field));

const idsOf = async ({ db }: Work, projectId: string): Promise<ReadonlyMap<string, string>> => {
  const { rows } = await sql<{ key: string; id: string }>`
    select key, id from analytics_reports where project_id = ${projectId}::uuid`.execute(db);
  return new Map(rows.map(({ key, id }) => [key, id]));
};

/**
 * Deletes, creates and changes saved reports, in this order: a project has room for few. Their questions are
 * checked but not asked. Must be called when the project's rules are in their final state.
 * @throws DomainError VALIDATION_ERROR, PAYMENT_REQUIRED, CONFLICT REPORT_LIMIT, prefixed by section and key
 */
const importReports = async (
  work: Work,
  projectId: string,
  { wanted, deleted, questions, actor, signal, copied }: ReportImport,
): Promise<void> => {
  if (wanted.length + deleted.length === 0) return;
  const ids = await idsOf(work, projectId);
  for (const change of deleted) {
    const id = ids.get(change.key);
    // Somebody may have deleted it meanwhile.
    if (id !== undefined) await naming(change, () => deleteReport(work, { projectId, id }));
  }
  for (const { change, wanted: document } of wanted) {
    signal.throwIfAborted();
    const question = questions.get(change.key);
    if (!question) throw new Error(`the report ${change.key} was not parsed`);
    const put = async (): Promise<void> => {
      // A copy can be asked as the project's report can, if its rule is there.
      if (copied) await checkRuleOf(work, projectId, document);
      else if (isAskedAnew(change)) await checkReport(work, projectId, { document, question });
      await putReport(work, projectId, { document, question, actor });
    };
    await naming(change, put, copied);
  }
};

/** Sections that only ADMINs may change, as with single changes. */
const OF_ADMINS: ReadonlySet<string> = new Set(["settings", "timezone"]);
/** Scopes that a key needs for a section besides `config:manage`. */
const SCOPES: Readonly<Record<string, string>> = {
  rules: "rules:manage",
  leaderboards: "leaderboards:manage",
  quests: "quests:manage",
  adventures: "adventures:manage",
};

/**
 * Refuses changes that the caller could not make individually.
 * @throws DomainError FORBIDDEN: INSUFFICIENT_ROLE, INSUFFICIENT_SCOPE, APPROVAL_REQUIRED
 */
const refuseForbidden = (caller: Caller, changes: readonly ConfigChange[]): void => {
  const sections = new Set(changes.map(({ section }) => section));
  if (caller.kind === "user" && !ADMINS.includes(caller.role)) {
    const above = [...sections].filter((section) => OF_ADMINS.has(section));
    if (above.length > 0)
      throw forbidden("INSUFFICIENT_ROLE", `Your role ${caller.role} may not change ${above.join(", ")}`);
  }
  const isOfTenant = caller.kind === "user" || caller.kind === "key";
  if (sections.has(REPORTS) && isOfTenant && caller.tenant.approvalStatus !== "APPROVED")
    throw approvalRequired();
  if (caller.kind !== "key") return;
  const missing = [...sections].flatMap((section) => SCOPES[section] ?? []);
  const lacking = missing.filter((scope) => !caller.scopes.includes(scope));
  if (lacking.length > 0) throw forbidden("INSUFFICIENT_SCOPE", `This needs the scope ${lacking.join(", ")}`);
};

/** What is applied to a project. */
type Applied = {
  document: ConfigDocument;
  questions: ReportQuestions;
  tenantId: string;
  /** The actor recorded for the changes. */
  actor: string;
  /** Aborted when nobody waits for the response any more: then nothing is imported. */
  signal: AbortSignal;
  /** Given for a copy, which is audited as a whole, and only with its boards and reports. */
  copied?: Copied | undefined;
};

type ConfigImport = Omit<Applied, "copied"> & {
  /** Archives items that a section does not name, and deletes reports. */
  prune: boolean;
  /** Absent: whether anybody may make the changes is not asked. */
  caller?: Caller | undefined;
};

/**
 * Makes a project what a document describes: completely, or not at all if it throws. No batch of events
 * evaluates in between. Time and statements are linear in the changes, and other requests are served
 * meanwhile.
 * @returns the changes
 * @throws the reason of the signal; DomainError as the single changes do, its message prefixed by section and
 * key
 */
export const importConfig = async (
  work: Work,
  projectId: string,
  asked: ConfigImport,
): Promise<ConfigChange[]> => {
  asked.signal.throwIfAborted();
  // First: the compared state must not change meanwhile.
  await changeConfig(work, projectId);
  const current = await exportConfig(work, projectId);
  const given = { ...asked, document: withSecretsFrom(current, asked.document) };
  given.signal.throwIfAborted();
  const changes = await diffConfig(current, given);
  if (given.caller) refuseForbidden(given.caller, changes);
  if (changes.length === 0) return changes;
  await applyChanges(work, projectId, { changes, given });
  await auditDefinition(work, "config.imported", { projectId, id: projectId });
  given.signal.throwIfAborted();
  return changes;
};

/**
 * Makes changes to a project, all or none. Must be called under its config lock.
 * @throws as `importConfig`
 */
export const applyChanges = async (work: Work, projectId: string, all: Changes): Promise<void> => {
  // A unit of work compares all its entities at each flush.
  await forget(work);
  const apply = async (): Promise<void> => {
    try {
      await applyAll(work, projectId, all);
    } finally {
      unshareDefinitions(work, projectId);
    }
  };
  const copied = all.given.copied?.from;
  try {
    await changeRunning(work, { projectId, reason: "DEFINITION_LIMIT", copied }, apply);
  } catch (error) {
    throw namedLoop(error, all.changes);
  }
};

/** Takes an import back that was only to be tried. */
class TakenBack extends Error {
  readonly changes: ConfigChange[];

  constructor(changes: ConfigChange[]) {
    super("an import was tried");
    this.changes = changes;
  }
}

/**
 * Imports and takes everything back: what an import would refuse is refused in the same way. A document that
 * differs in nothing is only compared, and locks nothing.
 * @param transact one of its own: what joins another transaction cannot be taken back
 * @returns the changes that an import would make
 * @throws as `importConfig`
 */
export const tryImport = async (
  transact: Transact,
  projectId: string,
  asked: ConfigImport,
): Promise<ConfigChange[]> => {
  const current = await transact((work) => exportConfig(work, projectId));
  const given = { ...asked, document: withSecretsFrom(current, asked.document) };
  if ((await diffConfig(current, given)).length === 0) return [];
  try {
    return await transact(async (work) => {
      const changes = await importConfig(work, projectId, asked);
      await work.em.flush();
      throw new TakenBack(changes);
    });
  } catch (error) {
    if (error instanceof TakenBack) return error.changes;
    throw error;
  }
};

const forget = async ({ em }: Work): Promise<void> => {
  await em.flush();
  em.clear();
};

type Changes = { changes: readonly ConfigChange[]; given: Applied };

/**
 * Archives last, rules first: nothing that runs may name an archived definition. Only a copy archives boards
 * before, as the project has done: a rule that names them does not come along.
 */
const applyAll = async (work: Work, projectId: string, { changes, given }: Changes): Promise<void> => {
  const items = itemsOf(given.document, changes);
  const isArchive = ({ action }: ConfigChange): boolean => action === "ARCHIVE" || action === "DELETE";
  const [kept, archived] = [changes.filter((one) => !isArchive(one)), changes.filter(isArchive)];
  const boards = (of: readonly ConfigChange[]) => of.filter(({ section }) => section === "leaderboards");
  const rules = (of: readonly ConfigChange[]) => of.filter(({ section }) => section === "rules");
  const reports = (of: readonly ConfigChange[]) => of.filter(({ section }) => section === REPORTS);
  const { signal, actor } = given;
  const refused = new Set<ConfigChange>();
  const copied = given.copied && {
    ...given.copied,
    skip: (change: ConfigChange, error: DomainError): void => {
      refused.add(change);
      given.copied!.skip(change, error);
    },
  };
  const unaudited = copied ? { ...work, by: undefined } : work;
  const one = async (change: ConfigChange, apply: () => Promise<void>): Promise<void> => {
    signal.throwIfAborted();
    await naming(change, apply, copied);
    await naming(change, () => forget(work));
  };
  for (const change of kept.filter(({ section }) => SINGLE.some((name) => name === section)))
    await one(change, () => applySingle(work, projectId, { change, given }));
  const definitions = kept.filter(isDefinitions).map((change): WantedDefinition => {
    const { status, ...wanted } = items.get(change)!;
    return { change, wanted, phase: status === "ACTIVE" ? "RUNNING" : (status as Phase | undefined) };
  });
  const drafting = { archived: archived.filter(isDefinitions), actor, signal, copied };
  const board = async (change: ConfigChange): Promise<void> => {
    const closed = await applyBoard(work, projectId, { change, item: items.get(change) });
    if (closed !== undefined) copied?.closedPeriodIds.push(closed);
  };
  const archiveBoards = async (): Promise<void> => {
    for (const change of boards(archived)) await one(change, () => board(change));
  };
  if (copied) await archiveBoards();
  const isOther = ({ change: { action, fields } }: WantedDefinition): boolean =>
    action === "CREATE" || fields.some((field) => field !== "status");
  await importNaming(boards(kept), {
    definitions: definitions.filter(isOther),
    add: (those, mayWait) => importDefinitions(unaudited, projectId, { wanted: those, mayWait, ...drafting }),
    apply: (change, waits) => one(change, () => board(change).catch(waits)),
  });
  const wanted = rules(kept).map((change) => ({ change, ...(items.get(change) as Exported<"rules">) }));
  await importRules(unaudited, projectId, {
    ...drafting,
    wanted,
    archived: rules(archived),
  });
  if (!copied) await archiveBoards();
  const changed = definitions.filter(({ change }) => !refused.has(change));
  await finishDefinitions(unaudited, projectId, { ...drafting, wanted: changed });
  const saved = reports(kept).map((change) => ({ change, wanted: items.get(change) as ReportDocument }));
  await importReports(work, projectId, { ...given, copied, wanted: saved, deleted: reports(archived) });
};

type Naming = {
  definitions: readonly WantedDefinition[];
  /** @returns those that name what is not there yet, which only `mayWait` lets pass */
  add(definitions: readonly WantedDefinition[], mayWait: boolean): Promise<WantedDefinition[]>;
  /** Applies a board; `waits` is told why that is not possible yet. */
  apply(change: ConfigChange, waits: (error: unknown) => void): Promise<void>;
};

/** Boards rank what definitions are, and quests ask for places on boards: each comes after what it names. */
const importNaming = async (
  boards: readonly ConfigChange[],
  { definitions, add, apply }: Naming,
): Promise<void> => {
  for (let [names, lists] = [definitions, boards]; names.length + lists.length > 0;) {
    const leftNames = await add(names, true);
    const leftLists: ConfigChange[] = [];
    for (const change of lists)
      await apply(change, (error) => {
        if (!(error instanceof UnknownReference)) throw error;
        leftLists.push(change);
      });
    if (leftNames.length + leftLists.length === names.length + lists.length) {
      // Nothing more will be there: they say what they miss.
      await add(leftNames, false);
      for (const change of leftLists)
        await apply(change, (error) => {
          throw error;
        });
      return;
    }
    [names, lists] = [leftNames, leftLists];
  }
};

/** An item of a section that is no definition of a kind. */
type Exported<S extends "rules" | "leaderboards"> = NonNullable<ConfigDocument[S]>[number];

/** Returns the items of a document that changes refer to. */
const itemsOf = (document: ConfigDocument, changes: readonly ConfigChange[]): Map<ConfigChange, Json> => {
  const byKey = new Map<string, Map<string, Json>>();
  for (const section of new Set(changes.map((change) => change.section))) {
    const found = sectionOf(document, section);
    if (Array.isArray(found)) byKey.set(section, new Map(found.map((item: Json) => [keyOf(item), item])));
  }
  return new Map(
    changes.flatMap((change) => {
      const item = byKey.get(change.section)?.get(change.key);
      return item ? [[change, item] as const] : [];
    }),
  );
};

type Step = { change: ConfigChange; given: Applied };

const applySingle = async (work: Work, projectId: string, { change, given }: Step): Promise<void> => {
  const { timezone, settings, levelCurve } = given.document;
  if (change.section === "levelCurve") {
    const recalculate = given.copied ? "SILENT" : "NONE";
    await putCurve(work, projectId, { curve: levelCurve!, recalculate, actor: given.actor });
    return;
  }
  const patch = change.section === "timezone" ? { timezone } : { settings };
  await changeProject(work, { tenantId: given.tenantId, projectId, actor: given.actor }, patch);
};

/** Fields of a board that may change; with another meaning of its scores it is another board. */
const BOARD_FIELDS: ReadonlySet<string> = new Set([
  ...CLEARED_FIELDS,
  "name",
  "ties",
  "prizeClaim",
  "prizesForLate",
  "status",
  "period",
]);

/** @returns a period that has no entries any more, if any */
const applyBoard = async (
  work: Work,
  projectId: string,
  { change, item }: { change: ConfigChange; item: Json | undefined },
): Promise<string | undefined> => {
  if (change.action === "ARCHIVE") {
    await archiveLeaderboard(work, projectId, change.key);
    return undefined;
  }
  const { status, leaderboard } = item as Exported<"leaderboards">;
  const board = await work.em.findOne(Leaderboard, { projectId, key: change.key });
  if (!board) {
    await createLeaderboard(work, projectId, leaderboard);
    if (status === "PAUSED") await pauseLeaderboard(work, projectId, change.key);
    return undefined;
  }
  const fields = itemFields(item!, exportedBoard(board));
  refuseFixed(fields);
  const isArchived = board.status === "ARCHIVED";
  if (isArchived) await restoreLeaderboard(work, board);
  if (isArchived || fields.some((field) => field !== "status")) {
    const patch = patchTo(board.definition, leaderboard);
    await patchLeaderboard(work, projectId, change.key, { ...patch, isRestored: isArchived });
  }
  if (board.status === status) return undefined;
  if (status === "ACTIVE") return (await resumeLeaderboard(work, projectId, change.key)).closedPeriodId;
  await pauseLeaderboard(work, projectId, change.key);
  return undefined;
};

const refuseFixed = (fields: readonly string[]): void => {
  const fixed = fields.filter((field) => !BOARD_FIELDS.has(field));
  if (fixed.length === 0) return;
  throw conflict("LEADERBOARD_FIXED", `${fixed.join(", ")} cannot change; create another leaderboard`);
};

/**
 * Returns the patch that turns one definition into another. @throws CONFLICT LEADERBOARD_FIXED when it would
 * change its windows
 */
const patchTo = (before: Definition, wanted: NewLeaderboard): LeaderboardPatch => {
  const { name, ties, prizeClaim, prizesForLate } = wanted;
  const period = inCalendar(wanted.period, before.period);
  // What is stored may be of before a field was added.
  const stored = inCalendar(before.period, before.period);
  if (!isDeepStrictEqual(windowsOf(stored), windowsOf(period)))
    throw conflict("LEADERBOARD_FIXED", "period cannot change; create another leaderboard");
  const cleared = Object.fromEntries(CLEARED_FIELDS.map((field) => [field, wanted[field] ?? null]));
  const plain = { name, ties, prizeClaim, prizesForLate };
  if (period.kind === "ALL_TIME") return { ...cleared, ...plain };
  const { closeGraceSeconds, keepPeriods } = period;
  return { ...cleared, ...plain, period: { closeGraceSeconds, keepPeriods } };
};
