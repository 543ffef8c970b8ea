import { sql } from "kysely";
import { audit } from "../../accounts/audit/audit.ts";
import { Project } from "../../accounts/projects/project.ts";
import { getProject, lockProject } from "../../accounts/projects/projects.ts";
import { holdConfig } from "../../kernel/config-lock.ts";
import { conflict, DomainError, invalid } from "../../kernel/errors.ts";
import { projectTime } from "../../kernel/project-time.ts";
import type { Work } from "../../kernel/work.ts";
import { type JobStatus, queueJob } from "../../long-work/project-jobs.ts";
import { clockAdvance } from "./advance.ts";
import { Happened } from "./happened.ts";

const DAY_MS = 86_400_000;
/** How far a sandbox's clock may be ahead of the server's, in ms: two years. */
export const CLOCK_AHEAD_MAX_MS = 731 * DAY_MS;

/** The latest advance of a clock. */
export type Advance = {
  jobId: string;
  status: JobStatus;
  error: string | null;
  startedAt: string;
  finishedAt: string | null;
  happened: Happened;
};

export type TestClock = {
  sandboxProjectId: string;
  /** The time of the sandbox. */
  now: string;
  serverNow: string;
  aheadSeconds: number;
  /** Kept for a day after it has ended. */
  lastAdvance: Advance | null;
};

const noSandbox = (): DomainError =>
  new DomainError(
    "NOT_FOUND",
    "The project has no sandbox, and its own clock is the server's: POST /projects/{projectId}/sandbox",
  );

/** Returns the sandbox that a project is or has. @throws DomainError NOT_FOUND */
export const findSandbox = async (work: Work, tenantId: string, projectId: string): Promise<Project> => {
  const project = await getProject(work, tenantId, projectId);
  if (project.sandboxOf != null) return project;
  const sandbox = await work.em.findOne(Project, { sandboxOf: project.id, deletedAt: null });
  if (!sandbox) throw noSandbox();
  return sandbox;
};

type JobRow = {
  id: string;
  status: JobStatus;
  state: { happened?: unknown };
  result: unknown;
  error: string | null;
  created_at: Date | string;
  finished_at: Date | string | null;
};

const iso = (time: Date | string): string => new Date(time).toISOString();

const readLast = async ({ db }: Work, projectId: string): Promise<Advance | null> => {
  const { rows } = await sql<JobRow>`
    select id, status, state, result, error, created_at, finished_at from project_jobs
    where project_id = ${projectId}::uuid and kind = ${clockAdvance.kind}
    order by id desc limit 1`.execute(db);
  const [row] = rows;
  // Results are kept for a day.
  if (!row || (row.status === "SUCCEEDED" && row.result === null)) return null;
  return {
    jobId: row.id,
    status: row.status,
    error: row.error,
    startedAt: iso(row.created_at),
    finishedAt: row.finished_at === null ? null : iso(row.finished_at),
    happened: Happened.parse(row.result ?? row.state.happened ?? {}),
  };
};

/** Returns the clock of a sandbox, and what its latest advance has done. */
export const readTestClock = async (work: Work, sandboxProjectId: string): Promise<TestClock> => {
  const { clockAheadMs } = await work.em.findOneOrFail(Project, { id: sandboxProjectId }, { refresh: true });
  const { serverNow } = work;
  return {
    sandboxProjectId,
    now: projectTime(work, { clockAheadMs }).toISOString(),
    serverNow: serverNow.toISOString(),
    aheadSeconds: Math.round(clockAheadMs / 1_000),
    lastAdvance: await readLast(work, sandboxProjectId),
  };
};

/** What is wanted of a clock: exactly one. */
export type ClockChange = { advanceMs: number } | { to: Date } | { reset: true };

const targetOf = (
  work: Work,
  { clockAheadMs }: Project,
  change: Exclude<ClockChange, { reset: true }>,
): number => {
  const isBy = "advanceMs" in change;
  const field = isBy ? "advance" : "to";
  const ms = isBy ? clockAheadMs + change.advanceMs : change.to.getTime() - work.serverNow.getTime();
  if (ms < clockAheadMs)
    throw invalid(field, "the clock only goes forward; reset: true sets it to the server's time");
  if (ms > CLOCK_AHEAD_MAX_MS)
    throw invalid(field, "the clock may be at most two years ahead of the server's");
  return ms;
};

const refuseIfMoving = async ({ db }: Work, projectId: string): Promise<void> => {
  const { rows } = await sql<{ id: string }>`
    select id from project_jobs where project_id = ${projectId}::uuid and kind = ${clockAdvance.kind}
      and status in ('QUEUED', 'RUNNING') limit 1`.execute(db);
  if (rows[0]) throw conflict("INVALID_STATE", `the clock is being advanced by job ${rows[0].id}`);
};

type Changing = { tenantId: string; sandboxProjectId: string; change: ClockChange; createdBy: string };

/**
 * Starts to advance the clock of a sandbox, or resets it; one at a time.
 * @throws DomainError VALIDATION_ERROR; CONFLICT INVALID_STATE while it is being advanced
 */
export const changeTestClock = async (
  work: Work,
  { tenantId, sandboxProjectId, change, createdBy }: Changing,
): Promise<void> => {
  // In the order of changes of definitions.
  if ("reset" in change) await holdConfig(work, sandboxProjectId);
  const sandbox = await lockProject(work, tenantId, sandboxProjectId);
  await refuseIfMoving(work, sandbox.id);
  const target = { type: "project", id: sandbox.id };
  if ("reset" in change) {
    await sql`update projects set clock_ahead_ms = 0 where id = ${sandbox.id}::uuid`.execute(work.db);
    return audit(work, { action: "sandbox_clock.reset", target, tenantId });
  }
  const toAheadMs = targetOf(work, sandbox, change);
  const params = { fromAheadMs: sandbox.clockAheadMs, toAheadMs };
  await queueJob(work, sandbox.id, { kind: clockAdvance, params, createdBy });
  const to = projectTime(work, { clockAheadMs: toAheadMs }).toISOString();
  await audit(work, { action: "sandbox_clock.advanced", target, tenantId, data: { to } });
};
