import type { Work } from "./work.ts";

/** A project's clock, as far as it differs from the server's. */
export type ProjectClock = {
  /** How far the clock is ahead of the server's, in ms: 0 for every project that is no sandbox. */
  clockAheadMs: number;
};

/** Returns the time of a project's clock within a transaction. */
export const projectTime = ({ serverNow }: Pick<Work, "serverNow">, { clockAheadMs }: ProjectClock): Date =>
  clockAheadMs === 0 ? serverNow : new Date(serverNow.getTime() + clockAheadMs);

/** Returns the same transaction at the time of a project's clock. */
export const atProjectTime = (work: Work, clock: ProjectClock): Work => {
  const now = projectTime(work, clock);
  return now.getTime() === work.now.getTime() ? work : { ...work, now };
};
