import { type ProjectJob, queueJob } from "../../long-work/project-jobs.ts";
import type { Work } from "../../kernel/work.ts";
import { type CurvePut, putCurve, type SavedCurve } from "../../progression/level-curves.ts";
import { levelRecalculation } from "./relevel.ts";

/**
 * WITH_EVENTS: a job gives every player the new level, emits `player.level_up` and grants levels' rewards.
 */
export type CurveSave = Omit<CurvePut, "recalculate"> & {
  recalculate: CurvePut["recalculate"] | "WITH_EVENTS";
};

/**
 * Saves a new version of the project's curve, and starts the job that applies it to players.
 * @throws DomainError VALIDATION_ERROR for a curve that does not rise; CONFLICT JOB_LIMIT
 */
export const saveCurve = async (
  work: Work,
  projectId: string,
  { recalculate, ...put }: CurveSave,
): Promise<{ curve: SavedCurve; job: ProjectJob | null }> => {
  const withEvents = recalculate === "WITH_EVENTS";
  const curve = await putCurve(work, projectId, { ...put, recalculate: withEvents ? "NONE" : recalculate });
  if (!withEvents) return { curve, job: null };
  const job = { kind: levelRecalculation, params: {}, createdBy: put.actor };
  return { curve, job: await queueJob(work, projectId, job) };
};
