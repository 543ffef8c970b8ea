import type { z } from "zod";
import type { Scope } from "../kernel/access.ts";
import type { Role } from "../kernel/caller.ts";
import type { Json } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";

export type JobInProgress<P> = {
  id: string;
  projectId: string;
  params: P;
  /** State left by the previous step; {} at first. */
  state: Json;
  createdBy: string;
};

/**
 * Result of a step: more to do (`progress` in percent), or the job's result, as JSON text where that may be
 * megabytes.
 */
export type Step =
  | {
      state: Json;
      progress: number;
      /** Others have to do something first: the next step is made a moment later. */
      isWaiting?: boolean;
    }
  | { result: Json }
  | { resultText: string };

/** Access to the operation that starts such a job; it also grants reading and cancelling the job. */
export type JobAccess = { scope: Scope; roles: readonly Role[] };

/**
 * Long-running work in a project, done in steps: each is one transaction together with the job's own state,
 * so that a job that is killed resumes where it was. To add one, add a file in its feature's folder and a
 * line in `registries/jobs/kinds.ts`.
 */
export type JobKind<P extends Json = Json> = {
  kind: string;
  access: JobAccess;
  params: z.ZodType<P>;
  /** A step's statements see one snapshot, and read much: it answers questions of analytics. */
  isSnapshot?: true;
  /** Does a bounded amount of work: a page of players, a few thousand rows. */
  step(work: Work, job: JobInProgress<P>): Promise<Step>;
};

export const jobKind = <P extends Json>(kind: JobKind<P>): JobKind => kind;
