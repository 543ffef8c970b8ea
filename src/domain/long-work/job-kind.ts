import type { z } from "zod";
import type { Scope } from "../kernel/access.ts";
import type { Role } from "../kernel/caller.ts";
import type { Json } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";

export type JobInHand<P> = {
  id: string;
  projectId: string;
  params: P;
  /** What the step before has left; {} at first. */
  state: Json;
  createdBy: string;
};

/**
 * What a step has come to: more to do (`progress` in percent), or the job's result, as JSON text where that
 * may be megabytes.
 */
export type Step = { state: Json; progress: number } | { result: Json } | { resultText: string };

/** The access of the operation that starts such a job: whoever has it sees, reads and cancels the job too. */
export type JobAccess = { scope: Scope; roles: readonly Role[] };

/**
 * Long work in a project: done in steps, each one transaction together with the job's own state, so that a
 * job that is killed goes on where it was. Add one by a file in its feature's folder and a line in
 * `registries/jobs/kinds.ts`.
 */
export type JobKind<P extends Json = Json> = {
  kind: string;
  access: JobAccess;
  params: z.ZodType<P>;
  /** Bounded work: a page of players, a few thousand rows. */
  step(work: Work, job: JobInHand<P>): Promise<Step>;
};

export const jobKind = <P extends Json>(kind: JobKind<P>): JobKind => kind;
