import { isDeepStrictEqual } from "node:util";
import { auditDefinition } from "../../accounts/audit/definitions.ts";
import type { Caller } from "../../kernel/caller.ts";
import { changeConfig } from "../../kernel/config-lock.ts";
import { unshareDefinitions } from "../../economy/definitions/project-definitions.ts";
import { changeRunning } from "../../economy/definitions/running.ts";
import { conflict } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import {
  CLEARED_FIELDS,
  type Definition,
  type LeaderboardPatch,
  type NewLeaderboard,
} from "../../evaluation/boards/definition.ts";
import {
  archiveLeaderboard,
  createLeaderboard,
  patchLeaderboard,
  pauseLeaderboard,
  restoreLeaderboard,
  resumeLeaderboard,
} from "../../leaderboards/leaderboards.ts";
import type { Phase } from "../../evaluation/live.ts";
import { inZone, windowsOf } from "../../evaluation/boards/period.ts";
import { Leaderboard } from "../../progression/leaderboard.ts";
import { putCurve } from "../../progression/level-curves.ts";
import { changeProject } from "../../economy/levels/change-project.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { type ConfigChange, diffConfig, itemFields } from "./diff.ts";
import { type ConfigDocument, keyOf, REPORTS, sectionOf, withSecretsFrom } from "./document.ts";
import { exportConfig, exportedBoard } from "./export.ts";
import { refuseForbidden } from "./permit.ts";
import {
  archiveDefinitions,
  importDefinitions,
  importPhases,
  isDefinitions,
  type WantedDefinition,
} from "./import-definitions.ts";
import { UnknownReference } from "../../economy/definitions/references.ts";
import { importReports, type ReportQuestions } from "./import-reports.ts";
import { importRules, namedLoop } from "./import-rules.ts";
import { naming } from "./named-error.ts";
import type { ReportDocument } from "../../analytics/reports/documents.ts";

export type ConfigImport = {
  document: ConfigDocument;
  questions: ReportQuestions;
  /** Archives items that a section does not name, and deletes reports. */
  prune: boolean;
  tenantId: string;
  /** Absent: whether anybody may make the changes is not asked. */
  caller?: Caller | undefined;
  /** The actor recorded for the changes. */
  actor: string;
  /** Aborted when nobody waits for the response any more: then nothing is imported. */
  signal: AbortSignal;
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
  // A unit of work compares all its entities at each flush.
  await forget(work);
  const apply = async (): Promise<void> => {
    try {
      await applyAll(work, projectId, { changes, given });
    } finally {
      unshareDefinitions(work, projectId);
    }
  };
  try {
    await changeRunning(work, { projectId, reason: "DEFINITION_LIMIT", isLong: true }, apply);
  } catch (error) {
    throw namedLoop(error, changes);
  }
  await auditDefinition(work, "config.imported", { projectId, id: projectId });
  given.signal.throwIfAborted();
  return changes;
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

const SINGLE: ReadonlySet<string> = new Set(["timezone", "settings", "levelCurve"]);

/** Archives last, rules first: nothing that runs may name an archived definition. */
const applyAll = async (
  work: Work,
  projectId: string,
  { changes, given }: { changes: readonly ConfigChange[]; given: ConfigImport },
): Promise<void> => {
  const items = itemsOf(given.document, changes);
  const isArchive = ({ action }: ConfigChange): boolean => action === "ARCHIVE" || action === "DELETE";
  const [kept, archived] = [changes.filter((one) => !isArchive(one)), changes.filter(isArchive)];
  const boards = (of: readonly ConfigChange[]) => of.filter(({ section }) => section === "leaderboards");
  const rules = (of: readonly ConfigChange[]) => of.filter(({ section }) => section === "rules");
  const reports = (of: readonly ConfigChange[]) => of.filter(({ section }) => section === REPORTS);
  const { signal, actor, questions } = given;
  const one = async (change: ConfigChange, apply: () => Promise<void>): Promise<void> => {
    signal.throwIfAborted();
    await naming(change, apply);
    await naming(change, () => forget(work));
  };
  for (const change of kept.filter(({ section }) => SINGLE.has(section)))
    await one(change, () => applySingle(work, projectId, { change, given }));
  const definitions = kept.filter(isDefinitions).map((change): WantedDefinition => {
    const { status, ...wanted } = items.get(change)!;
    return { change, wanted, phase: status === "ACTIVE" ? "RUNNING" : (status as Phase | undefined) };
  });
  const drafting = { actor, signal };
  const board = (change: ConfigChange) => applyBoard(work, projectId, { change, item: items.get(change) });
  const isOther = ({ change: { action, fields } }: WantedDefinition): boolean =>
    action === "CREATE" || fields.some((field) => field !== "status");
  await importNaming(boards(kept), {
    definitions: definitions.filter(isOther),
    add: (those, mayWait) => importDefinitions(work, projectId, { wanted: those, mayWait, ...drafting }),
    apply: (change, waits) => one(change, () => board(change).catch(waits)),
  });
  const wanted = rules(kept).map((change) => ({ change, ...(items.get(change) as Exported<"rules">) }));
  await importRules(work, projectId, { wanted, archived: rules(archived), actor, signal });
  for (const change of boards(archived))
    await one(change, () => applyBoard(work, projectId, { change, item: undefined }));
  await archiveDefinitions(work, projectId, archived.filter(isDefinitions));
  await importPhases(work, projectId, definitions);
  const saved = reports(kept).map((change) => ({ change, wanted: items.get(change) as ReportDocument }));
  const deleted = reports(archived);
  await importReports(work, projectId, { wanted: saved, deleted, questions, actor, signal });
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

type Step = { change: ConfigChange; given: ConfigImport };

const applySingle = async (work: Work, projectId: string, { change, given }: Step): Promise<void> => {
  const { timezone, settings, levelCurve } = given.document;
  if (change.section === "levelCurve") {
    await putCurve(work, projectId, { curve: levelCurve!, recalculate: "NONE", actor: given.actor });
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

const applyBoard = async (
  work: Work,
  projectId: string,
  { change, item }: { change: ConfigChange; item: Json | undefined },
): Promise<void> => {
  if (change.action === "ARCHIVE") {
    await archiveLeaderboard(work, projectId, change.key);
    return;
  }
  const { status, leaderboard } = item as Exported<"leaderboards">;
  const board = await work.em.findOne(Leaderboard, { projectId, key: change.key });
  if (!board) {
    await createLeaderboard(work, projectId, leaderboard);
    if (status === "PAUSED") await pauseLeaderboard(work, projectId, change.key);
    return;
  }
  refuseFixed(itemFields(item!, exportedBoard(board)));
  if (board.status === "ARCHIVED") await restoreLeaderboard(work, board);
  await patchLeaderboard(work, projectId, change.key, patchTo(board.definition, leaderboard));
  if (board.status !== status)
    await (status === "PAUSED" ? pauseLeaderboard : resumeLeaderboard)(work, projectId, change.key);
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
  const period = inZone(wanted.period, before.period.timezone);
  if (!isDeepStrictEqual(windowsOf(before.period), windowsOf(period)))
    throw conflict("LEADERBOARD_FIXED", "period cannot change; create another leaderboard");
  const cleared = Object.fromEntries(CLEARED_FIELDS.map((field) => [field, wanted[field] ?? null]));
  const plain = { name, ties, prizeClaim, prizesForLate };
  if (period.kind === "ALL_TIME") return { ...cleared, ...plain };
  const { closeGraceSeconds, keepPeriods } = period;
  return { ...cleared, ...plain, period: { closeGraceSeconds, keepPeriods } };
};
