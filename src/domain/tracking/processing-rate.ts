import { createSizedCache } from "../kernel/sized-cache.ts";

/** A look at a project's number of processed events. `atMs`: of a monotonic clock. */
export type Look = { atMs: number; processed: number };

/** How far looks reach back, how far apart they are, and over how long a rate is computed at least, in ms. */
const LOOKS_MS = 60_000;
const LOOK_EVERY_MS = 1_000;
const RATE_MIN_MS = 5_000;
/** Projects whose looks a process keeps. */
const PROJECTS_MAX = 1_000;
const kept = createSizedCache<readonly Look[]>({ items: PROJECTS_MAX });

/** Returns the looks of the last minute with a further one, unless that follows the last one too closely. */
export const addLook = (looks: readonly Look[], look: Look): readonly Look[] => {
  const recent = looks.filter(({ atMs }) => atMs > look.atMs - LOOKS_MS);
  const last = recent.at(-1);
  return last && look.atMs - last.atMs < LOOK_EVERY_MS ? recent : [...recent, look];
};

/** Returns the events processed per second since the first of these looks; null where that is too near. */
export const rateSince = ([first]: readonly Look[], look: Look): number | null => {
  if (!first || look.atMs - first.atMs < RATE_MIN_MS) return null;
  return Math.round((1_000 * (look.processed - first.processed)) / (look.atMs - first.atMs));
};

/** Returns the events of a project that were processed per second, by the looks of this process. */
export const rateOf = (projectId: string, look: Look): number | null => {
  const looks = addLook(kept.get(projectId) ?? [], look);
  kept.keep(projectId, looks, { owner: projectId });
  return rateSince(looks, look);
};
