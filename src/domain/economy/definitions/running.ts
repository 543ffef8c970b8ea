import { sql } from "kysely";
import { readKeptBytes, readRunningState, type RunningState } from "./running-state.ts";
import { refuseNewLoops, standingLoops } from "../loops/loops.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import { fnv1a } from "../../kernel/ids.ts";
import {
  COUNTERS_MAX,
  DEFINITION_MAX_BYTES,
  KEPT_MAX_BYTES,
  PROJECT_MAX_BYTES,
} from "../../kernel/limits.ts";
import { bytesOf } from "../../kernel/hostile-json.ts";
import { unanswered } from "../../kernel/statements.ts";
import { localKey, LOCK_SPACES, type Work } from "../../kernel/work.ts";

/** Reason of a 400 for a document that is too large. */
export const TOO_LARGE = "TOO_LARGE";

/**
 * Refuses a document that is too large, measured as it would be stored.
 * @throws DomainError VALIDATION_ERROR with the reason TOO_LARGE
 */
export const checkSize = (name: string, document: object, max = DEFINITION_MAX_BYTES): void => {
  const bytes = bytesOf(document);
  if (bytes > max) throw invalid(name, `must be at most ${max} bytes of JSON, and has ${bytes}`, TOO_LARGE);
};

/** Whether a change is in progress: changes inside it are checked once, at its end. */
const CHANGING = localKey("changeRunning", () => false);

type RunningChange = {
  projectId: string;
  /** Reason of the refusal when the project becomes too large. */
  reason: string;
  /** Set for a change of one rule that `lockRunnable` has found to close no loop. */
  isLoopChecked?: true;
  /** The project that is being copied: its loops may be copied too. */
  copied?: string;
};

/**
 * The only way to change what runs in a project: rules, definitions, leaderboards. Refuses the change when
 * the project exceeds its size limit, except that one that exceeded it before may still shrink, and when
 * rules could newly trigger one another endlessly. Must be called under the project's config lock; of nested
 * calls in one transaction only the outer one checks.
 * @throws DomainError CONFLICT with `reason`; EndlessLoops; an Unprepared, for `transact`
 */
export const changeRunning = async <T>(
  work: Work,
  { projectId, reason, isLoopChecked, copied }: RunningChange,
  change: () => Promise<T>,
): Promise<T> => {
  if (work.local.get(CHANGING)) return change();
  const before = await readRunningState(work, projectId);
  const standing = await standingLoops(work, copied === undefined ? [projectId] : [projectId, copied]);
  work.local.set(CHANGING, true);
  try {
    const changed = await change();
    await work.em.flush();
    const after = await readRunningState(work, projectId);
    refuseLarger(after, { before, reason });
    if (!isLoopChecked && after.rules > 0 && after.links !== before.links)
      await refuseNewLoops(work, projectId, standing);
    return changed;
  } finally {
    work.local.set(CHANGING, false);
  }
};

/**
 * Refuses a draft that has become larger when the project keeps too much with it. One transaction of a
 * project at a time does so, until it has ended: others would not see its draft. To be called when the draft
 * is written.
 * @throws DomainError CONFLICT RULE_LIMIT
 */
export const refuseLargeDraft = async (work: Work, projectId: string): Promise<void> => {
  await unanswered(
    work.db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.DRAFTS}::int, ${fnv1a(projectId) | 0}::int)`,
  );
  if ((await readKeptBytes(work, projectId)) > KEPT_MAX_BYTES) throw keepsTooMuch("RULE_LIMIT");
};

const keepsTooMuch = (reason: string) =>
  conflict(
    reason,
    `a project may have ${KEPT_MAX_BYTES} bytes of rules, drafts and paused ones included, definitions and ` +
      "leaderboards together",
  );

const refuseLarger = (
  after: RunningState,
  { before, reason }: { before: RunningState; reason: string },
): void => {
  const refuse = (limit: string) => conflict(reason, `a project may have ${limit}`);
  if (after.bytes > Math.max(PROJECT_MAX_BYTES, before.bytes))
    throw refuse(`${PROJECT_MAX_BYTES} bytes of active rules, definitions and leaderboards together`);
  if (after.keptBytes > Math.max(KEPT_MAX_BYTES, before.keptBytes)) throw keepsTooMuch(reason);
  if (after.counters > Math.max(COUNTERS_MAX, before.counters))
    throw refuse(`${COUNTERS_MAX} different metrics of active rules, badges and segments together`);
};
