import { isDeepStrictEqual } from "node:util";
import { auditDefinition } from "../audit/definitions.ts";
import type { Caller } from "../caller.ts";
import { changeConfig } from "../config-lock.ts";
import {
  archiveDefinition,
  createDefinition,
  getDefinition,
  patchDefinition,
} from "../definitions/definitions.ts";
import type { Defined, DefinitionKind } from "../definitions/kind.ts";
import { DEFINITION_KINDS } from "../definitions/kinds.ts";
import { UNKNOWN_REFERENCE } from "../definitions/references.ts";
import { conflict, DomainError } from "../errors.ts";
import type { Json } from "../events.ts";
import {
  CLEARED_FIELDS,
  type Definition,
  type LeaderboardDefinition,
  type LeaderboardPatch,
} from "../leaderboards/definition.ts";
import {
  archiveLeaderboard,
  createLeaderboard,
  getLeaderboard,
  patchLeaderboard,
  pauseLeaderboard,
  resumeLeaderboard,
} from "../leaderboards/leaderboards.ts";
import { windowsOf } from "../leaderboards/period.ts";
import { putCurve } from "../progression/level-curves.ts";
import { updateProject } from "../projects/projects.ts";
import type { Work } from "../work.ts";
import { type ConfigChange, diffConfig } from "./diff.ts";
import { type ConfigDocument, keyOf, sectionOf } from "./document.ts";
import { refuseForbidden } from "./permit.ts";
import { importRule } from "./import-rules.ts";

export type ConfigImport = {
  document: ConfigDocument;
  /** Archives what a section does not name. */
  prune: boolean;
  tenantId: string;
  caller: Caller;
  /** In whose name things are made. */
  actor: string;
};

/**
 * Makes a project what a document says: all of it, or with a throw nothing. No batch of events evaluates in
 * between.
 * @returns what has changed
 * @throws DomainError as the single changes do, its message led by section and key
 */
export const importConfig = async (
  work: Work,
  projectId: string,
  given: ConfigImport,
): Promise<ConfigChange[]> => {
  // First: what is compared must not change meanwhile.
  await changeConfig(work, projectId);
  const changes = await diffConfig(work, projectId, given);
  refuseForbidden(given.caller, changes);
  let open = inOrder(changes);
  while (open.length > 0) open = await applyRound(work, projectId, { changes: open, given });
  if (changes.length > 0) await auditDefinition(work, "config.imported", { projectId, id: projectId });
  return changes;
};

type Round = { changes: readonly ConfigChange[]; given: ConfigImport };

/**
 * Applies what can be applied now.
 * @returns what names things that are not there yet
 */
const applyRound = async (
  work: Work,
  projectId: string,
  { changes, given }: Round,
): Promise<ConfigChange[]> => {
  const later: ConfigChange[] = [];
  for (const change of changes) {
    try {
      await apply(work, projectId, { change, given });
      await work.em.flush();
    } catch (error) {
      const isEarly = error instanceof DomainError && error.reason === UNKNOWN_REFERENCE;
      if (!isEarly || later.length === changes.length - 1) throw named(error, change);
      later.push(change);
    }
  }
  return later;
};

/** What is archived goes last, rules first: nothing that runs may name what is gone. */
const inOrder = (changes: readonly ConfigChange[]): ConfigChange[] => {
  const archived = changes.filter(({ action }) => action === "ARCHIVE");
  return [...changes.filter(({ action }) => action !== "ARCHIVE"), ...archived.toReversed()];
};

const named = (error: unknown, { section, key }: ConfigChange): unknown => {
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

type Step = { change: ConfigChange; given: ConfigImport };

const apply = async (work: Work, projectId: string, step: Step): Promise<void> => {
  const { section } = step.change;
  const kind = DEFINITION_KINDS.find(({ plural }) => plural === section);
  if (kind) return applyDefinition(work, projectId, { ...step, kind });
  if (section === "leaderboards") return applyBoard(work, projectId, step);
  if (section === "rules") return importRule(work, projectId, { ...step, actor: step.given.actor });
  return applySingle(work, projectId, step);
};

const applySingle = async (work: Work, projectId: string, { change, given }: Step): Promise<void> => {
  const { timezone, settings, levelCurve } = given.document;
  if (change.section === "levelCurve") {
    await putCurve(work, projectId, { curve: levelCurve!, recalculate: "NONE", actor: given.actor });
    return;
  }
  const told = change.section === "timezone" ? { timezone } : { settings };
  await updateProject(work, given.tenantId, projectId, told);
};

/** The item of a section that a change is about. */
export const itemOf = ({ change, given }: Step): Json =>
  sectionOf(given.document, change.section)!.find((item) => keyOf(item) === change.key)!;

/** Fields that a definition has and the document's does not are taken away. */
const withRemovals = (wanted: Json, before: Json): Json => ({
  ...Object.fromEntries(Object.keys(before).map((field) => [field, null])),
  ...wanted,
});

const applyDefinition = async (
  work: Work,
  projectId: string,
  step: Step & { kind: DefinitionKind },
): Promise<void> => {
  const { change, given, kind } = step;
  if (change.action === "ARCHIVE") {
    await archiveDefinition(work, projectId, kind, change.key);
    return;
  }
  const wanted = itemOf(step);
  if (change.action === "CREATE") {
    const definition = wanted as Defined;
    await createDefinition(work, projectId, kind, { definition, createdBy: given.actor });
    return;
  }
  const before = await getDefinition(work, projectId, kind, change.key);
  const changes = withRemovals(wanted, before.definition);
  await patchDefinition(work, projectId, kind, { ref: change.key, changes });
};

/** What may change of a board; another meaning of its scores is another board. */
const BOARD_FIELDS: ReadonlySet<string> = new Set([
  ...CLEARED_FIELDS,
  "name",
  "ties",
  "prizeClaim",
  "prizesForLate",
  "status",
  "period",
]);

const applyBoard = async (work: Work, projectId: string, step: Step): Promise<void> => {
  const { change } = step;
  if (change.action === "ARCHIVE") {
    await archiveLeaderboard(work, projectId, change.key);
    return;
  }
  const { status, leaderboard } = itemOf(step) as NonNullable<ConfigDocument["leaderboards"]>[number];
  if (change.action === "CREATE") {
    await createLeaderboard(work, projectId, leaderboard);
    if (status === "PAUSED") await pauseLeaderboard(work, projectId, change.key);
    return;
  }
  const fixed = change.fields.filter((field) => !BOARD_FIELDS.has(field));
  if (fixed.length > 0)
    throw conflict("LEADERBOARD_FIXED", `${fixed.join(", ")} cannot change; make another leaderboard`);
  const board = await getLeaderboard(work, projectId, change.key);
  await patchLeaderboard(work, projectId, change.key, patchTo(board.definition, leaderboard));
  if (board.status !== status)
    await (status === "PAUSED" ? pauseLeaderboard : resumeLeaderboard)(work, projectId, change.key);
};

/** What makes one definition another. @throws CONFLICT LEADERBOARD_FIXED when its windows would be others */
const patchTo = (before: Definition, wanted: LeaderboardDefinition): LeaderboardPatch => {
  const { name, ties, prizeClaim, prizesForLate, period } = wanted;
  if (!isDeepStrictEqual(windowsOf(before.period), windowsOf(period)))
    throw conflict("LEADERBOARD_FIXED", "period cannot change; make another leaderboard");
  const cleared = Object.fromEntries(CLEARED_FIELDS.map((field) => [field, wanted[field] ?? null]));
  const plain = { name, ties, prizeClaim, prizesForLate };
  if (period.kind === "ALL_TIME") return { ...cleared, ...plain };
  const { closeGraceSeconds, keepPeriods } = period;
  return { ...cleared, ...plain, period: { closeGraceSeconds, keepPeriods } };
};
