import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { audit } from "../../accounts/audit/audit.ts";
import { inProjectTime, Project, readClock } from "../../accounts/projects/project.ts";
import { getProject, lockProject } from "../../accounts/projects/projects.ts";
import {
  ADVENTURE_ENDS,
  DUE_ADVENTURES,
  settlePlayersAdventures,
} from "../../economy/adventures/change-adventures.ts";
import { DUE_BOOSTS, endPlayersBoosts } from "../../economy/boosts/kind.ts";
import { DUE_HOLDS, DUE_LOTS, expirePlayersHolds, expirePlayersLots } from "../../economy/currencies/kind.ts";
import { BADGE_EDITS } from "../../economy/badges/kind.ts";
import { DUE_QUESTS, QUEST_ENDS, settlePlayersQuests } from "../../economy/quests/due.ts";
import { claimEndsOf, expireGrants } from "../../economy/rewards/player-rewards.ts";
import { sweepSoon } from "../../economy/segments/sweeps.ts";
import { STREAK_EDITS } from "../../economy/streaks/kind.ts";
import { DUE_STREAKS, settlePlayersStreaks } from "../../economy/streaks/player-streaks.ts";
import { DESIGNERS } from "../../kernel/caller.ts";
import { conflict, DomainError, invalid } from "../../kernel/errors.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { readWithin } from "../../kernel/read.ts";
import { atProjectTime, holdConfig, projectTime, type Work } from "../../kernel/work.ts";
import { beginClosing, closeTimesOf, closingListsOf, stepClosing } from "../../leaderboards/periods/close.ts";
import { openWindows, windowTimesOf } from "../../leaderboards/periods/open.ts";
import { stepRanking, windowsToRank } from "../../leaderboards/periods/values.ts";
import {
  type JobInProgress,
  JOB_STATUSES,
  jobKind,
  queueJob,
  type Step,
} from "../../long-work/project-jobs.ts";
import {
  countDueOf,
  type DueRows,
  dueTimesOf,
  type EndingRows,
  findDueOf,
  followEnd,
  movedEnds,
  movedEndsOf,
  type PlayersOf,
} from "../../progression/moved-ends.ts";
import { areEventsWaiting, delayedTimesOf, requeueDelayed } from "../../progression/queue.ts";
import { scheduleTimesOf, stepSchedules } from "../../rules/schedules.ts";
import { NIL_ID } from "../../kernel/ids.ts";

/** What was done of what is due: how many, or that others have to do something first. */
type Settled = { count: number } | "BLOCKED";

/** One of the things that fall due with time. */
type DueKind = {
  /** Selects the times `due_at` of a project's rows. */
  times(projectId: string): RawBuilder<unknown>;
  /** Does a bounded part of what is due in a project by `work.now`. */
  settle(work: Work, projectId: string): Promise<Settled>;
};

/** Grants that expire in one transaction. */
const GRANTS_AT_ONCE = 1_000;

const ofPlayers = (due: DueRows, settle: (work: Work, players: PlayersOf) => Promise<void>): DueKind => ({
  times: (projectId) => dueTimesOf(due, projectId),
  settle: async (work, projectId) => {
    const { playerIds, rows } = await findDueOf(work, due, projectId);
    const players = { projectId, playerIds };
    await settle(work, players);
    const left = await countDueOf(work, due, players);
    return left < rows ? { count: rows - left } : "BLOCKED";
  },
});

/** As `due`, after rows of definitions whose ends have been moved are due by these. */
const withEnds = (rows: EndingRows, due: DueKind): DueKind => ({
  times: (projectId) => sql`${due.times(projectId)} union all ${movedEndsOf(rows, projectId)}`,
  settle: async (work, projectId) => {
    const [moved] = await movedEnds(work, rows, projectId);
    if (!moved) return due.settle(work, projectId);
    return (await followEnd(work, rows, moved)) === "BUSY" ? "BLOCKED" : { count: 0 };
  },
});

const counted = (count: number): Settled => (count > 0 ? { count } : "BLOCKED");

/** Lists are counted when they begin to close: a step of one may be done by the sweep of all projects. */
const closeLists = async (work: Work, projectId: string): Promise<Settled> => {
  const [window] = await windowsToRank(work, projectId);
  if (window) return (await stepRanking(work, window)) === "BUSY" ? "BLOCKED" : { count: 0 };
  const [list] = await closingListsOf(work, projectId);
  if (!list) return counted(await beginClosing(work, projectId));
  const { step } = await stepClosing(work, list);
  return step === "NONE" ? "BLOCKED" : { count: 0 };
};

const runSchedule = async (work: Work, projectId: string): Promise<Settled> => {
  const step = await stepSchedules(work, undefined, { projectId });
  return !step || step.isFull ? "BLOCKED" : { count: step.players };
};

/** Everything that falls due with time; of what is due at once, the first is done first. */
const DUE_KINDS = {
  eventsDelayed: {
    times: delayedTimesOf,
    settle: async (work, projectId) => counted(await requeueDelayed(work, projectId)),
  },
  periodsClosed: { times: closeTimesOf, settle: closeLists },
  periodsOpened: {
    times: windowTimesOf,
    settle: async (work, projectId) => counted(await openWindows(work, projectId)),
  },
  questsExpired: withEnds(BADGE_EDITS, withEnds(QUEST_ENDS, ofPlayers(DUE_QUESTS, settlePlayersQuests))),
  adventuresSettled: withEnds(ADVENTURE_ENDS, ofPlayers(DUE_ADVENTURES, settlePlayersAdventures)),
  streaksSettled: withEnds(STREAK_EDITS, ofPlayers(DUE_STREAKS, settlePlayersStreaks)),
  holdsReleased: ofPlayers(DUE_HOLDS, expirePlayersHolds),
  lotsExpired: ofPlayers(DUE_LOTS, expirePlayersLots),
  boostsEnded: ofPlayers(DUE_BOOSTS, endPlayersBoosts),
  rewardsExpired: {
    times: claimEndsOf,
    settle: async (work, projectId) => counted(await expireGrants(work, GRANTS_AT_ONCE, { projectId })),
  },
  scheduledRuns: { times: scheduleTimesOf, settle: runSchedule },
} as const satisfies Record<string, DueKind>;

type DueName = keyof typeof DUE_KINDS;
const DUE_NAMES = Object.keys(DUE_KINDS) as DueName[];

/** Maximum entries of the list of what an advance has done. */
const HAPPENED_MAX = 200;

/** The shape of an object that has the same for each kind. */
const eachDue = <S extends z.ZodType>(schema: S) =>
  Object.fromEntries(DUE_NAMES.map((name) => [name, schema])) as Record<DueName, S>;

/** What an advance has done: the first things in their order, and the number of all by kind. */
const Happened = z.object({
  counts: z.object(eachDue(z.int().default(0))).prefault({}),
  first: z.array(z.object({ at: z.iso.datetime(), what: z.enum(DUE_NAMES), count: z.int() })).default([]),
  /** Whether more has happened than the list has. */
  isCut: z.boolean().default(false),
});
type Happened = z.output<typeof Happened>;

/** Adds what was done at a moment; the same kind at the same moment is one entry. */
const withDone = (
  { counts, first, isCut }: Happened,
  { at, name, count }: { at: Date; name: DueName; count: number },
): Happened => {
  if (count === 0) return { counts, first, isCut };
  const summed = { ...counts, [name]: counts[name] + count };
  const [time, last] = [at.toISOString(), first.at(-1)];
  if (last?.what === name && last.at === time)
    return { counts: summed, first: [...first.slice(0, -1), { ...last, count: last.count + count }], isCut };
  if (first.length >= HAPPENED_MAX) return { counts: summed, first, isCut: true };
  return { counts: summed, first: [...first, { at: time, what: name, count }], isCut };
};

type Times = { name: DueName; dueMs: number | null; nextMs: number | null };

/** Returns for each kind the earliest time up to now, and the next one after it. One statement. */
const readTimes = async ({ db, now }: Work, projectId: string): Promise<Times[]> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const kinds = DUE_NAMES.map((name) => {
    const kind: DueKind = DUE_KINDS[name];
    return sql`select ${sql.lit(name)} as name, min(due_at) filter (where due_at <= ${at}) as due,
      min(due_at) filter (where due_at > ${at}) as next from (${kind.times(projectId)}) t`;
  });
  type Row = { name: DueName; due: Date | null; next: Date | null };
  const { rows } = await sql<Row>`${sql.join(kinds, sql` union all `)}`.execute(db);
  return rows.map(({ name, due, next }) => ({
    name,
    dueMs: due?.getTime() ?? null,
    nextMs: next?.getTime() ?? null,
  }));
};

/** `blocked`: the kinds of which others have to do something first. */
type DoneNext =
  | { what: "DONE"; name: DueName; count: number }
  | { what: "NOTHING"; blocked: DueName[]; nextMs: number | undefined };

/**
 * Does the next of what is due in a project by `work.now`, the earliest first.
 * @returns what was done; or that nothing could be done, and when the next is due
 */
const settleNext = async (work: Work, projectId: string): Promise<DoneNext> => {
  const times = await readTimes(work, projectId);
  const due = times
    .filter((one): one is Times & { dueMs: number } => one.dueMs !== null)
    .toSorted((a, b) => a.dueMs - b.dueMs);
  const blocked: DueName[] = [];
  for (const { name } of due) {
    const kind: DueKind = DUE_KINDS[name];
    const settled = await kind.settle(work, projectId);
    if (settled !== "BLOCKED") return { what: "DONE", name, count: settled.count };
    blocked.push(name);
  }
  const next = times.flatMap(({ nextMs }) => nextMs ?? []);
  return { what: "NOTHING", blocked, nextMs: next.length === 0 ? undefined : Math.min(...next) };
};

/** The clock moves in whole minutes, so that what falls due within one is done together, in ms. */
const CLOCK_STEP_MS = 60_000;
/** Maximum moves of the clock in one advance. */
const MOVES_MAX = 50_000;
/** How often an advance looks again whether events are processed: for about a minute. */
const LOOKS_MAX = 300;
/** How often it looks again in a row for what others have locked, before that is left to a later sweep. */
const RETRIES_MAX = 15;
/** How often it gives up so, before it looks once each time. */
const GIVEN_UP_MAX = 3;

/** `fromAheadMs`, `toAheadMs`: how far the clock is ahead of the server's before and after. */
const Params = z.object({ fromAheadMs: z.int(), toAheadMs: z.int() });
type Params = z.output<typeof Params>;

const State = z.object({
  happened: Happened.prefault({}),
  moves: z.int().default(0),
  /** Consecutive looks at events that are not processed yet. */
  looks: z.int().default(0),
  /** Consecutive looks at what others have locked; and how often that was in vain. */
  retries: z.int().default(0),
  givenUp: z.int().default(0),
});
type State = z.output<typeof State>;

type Moving = { projectId: string; aheadMs: number };

/** Moves the clock of a sandbox on, while no batch of it evaluates; it never goes back. */
const moveClock = async (work: Work, { projectId, aheadMs }: Moving): Promise<void> => {
  await holdConfig(work, projectId);
  await sql`
    update projects set clock_ahead_ms = greatest(clock_ahead_ms, ${aheadMs})
    where id = ${projectId}::uuid and sandbox_of is not null`.execute(work.db);
};

const waiting = (state: State, progress: number): Step => ({ state, progress, isWaiting: true });

/** Waits for events: those from before an advance are evaluated before it, those of a step before more. */
const awaitEvents = (state: State, progress: number): Step => {
  // No outage, which would be waited for as long as it lasts.
  if (state.looks >= LOOKS_MAX)
    throw new DomainError("UNPROCESSABLE_ENTITY", "the project's events are not being processed");
  return waiting({ ...state, looks: state.looks + 1 }, progress);
};

/** Returns how far ahead the clock is to be for what is due next, or at the end. */
const nextAhead = ({ serverNow }: Work, nextMs: number | undefined, { toAheadMs }: Params): number => {
  if (nextMs === undefined) return toAheadMs;
  const minute = Math.ceil(nextMs / CLOCK_STEP_MS) * CLOCK_STEP_MS;
  return Math.min(toAheadMs, minute - serverNow.getTime());
};

/**
 * Does the next of what falls due on the way, or moves the clock to where the next is due: each in one
 * transaction with the state of the job, so that it is done once, whoever goes on after a process has died.
 */
const step = async (outer: Work, job: JobInProgress<Params>): Promise<Step> => {
  const { projectId, params } = job;
  const state = State.parse(job.state);
  const clock = await readClock(readWithin(outer), projectId);
  const work = atProjectTime(outer, clock);
  const way = Math.max(1, params.toAheadMs - params.fromAheadMs);
  const progress = (100 * (clock.clockAheadMs - params.fromAheadMs)) / way;
  if (await areEventsWaiting(work, projectId)) return awaitEvents(state, progress);
  const done = await settleNext(work, projectId);
  if (done.what === "DONE") {
    const happened = withDone(state.happened, { at: work.now, ...done });
    return { state: { ...state, happened, looks: 0, retries: 0 }, progress };
  }
  const isBlocked = done.blocked.length > 0;
  if (isBlocked && state.retries < (state.givenUp < GIVEN_UP_MAX ? RETRIES_MAX : 1))
    return waiting({ ...state, looks: 0, retries: state.retries + 1 }, progress);
  if (clock.clockAheadMs >= params.toAheadMs) {
    await sweepSoon(work, projectId);
    return { result: state.happened };
  }
  if (state.moves >= MOVES_MAX)
    throw new DomainError("UNPROCESSABLE_ENTITY", "more falls due than one advance does: advance by less");
  await moveClock(outer, { projectId, aheadMs: nextAhead(work, done.nextMs, params) });
  const givenUp = state.givenUp + (isBlocked ? 1 : 0);
  return { state: { ...state, looks: 0, retries: 0, givenUp, moves: state.moves + 1 }, progress };
};

/** Advances the clock of a sandbox, and does in order what falls due on the way. */
export const clockAdvance = jobKind({
  kind: "CLOCK_ADVANCE",
  access: { scope: "config:manage", roles: DESIGNERS },
  params: Params,
  step,
});

const DAY_MS = 86_400_000;
/** How far a sandbox's clock may be ahead of the server's, in ms: two years. */
const CLOCK_AHEAD_MAX_MS = 731 * DAY_MS;

export const ClockBody = z.object({
  sandboxProjectId: z.uuid(),
  now: z.iso.datetime().meta({ description: "The time of the sandbox; it goes on from there" }),
  serverNow: z.iso.datetime(),
  aheadSeconds: z.int(),
  lastAdvance: z
    .object({
      jobId: z.uuid(),
      status: z.enum(JOB_STATUSES),
      error: z.string().nullable(),
      startedAt: z.iso.datetime(),
      finishedAt: z.iso.datetime().nullable(),
      happened: z.object({
        counts: z.object(eachDue(z.int())).meta({ description: "How much of each kind fell due on the way" }),
        first: z
          .array(z.object({ at: z.iso.datetime(), what: z.enum(DUE_NAMES), count: z.int() }))
          .meta({ description: `The first ${HAPPENED_MAX}, in their order` }),
        isCut: z.boolean(),
      }),
    })
    .nullable()
    .meta({ description: "The latest advance, until a day after its end" }),
});
export type TestClock = z.output<typeof ClockBody>;
type Advance = TestClock["lastAdvance"];

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

type LastRow = Omit<NonNullable<Advance>, "happened">;

const readLast = async ({ db }: Work, projectId: string): Promise<Advance> => {
  const { rows } = await sql<RowOf<LastRow> & { state: { happened?: unknown }; result: unknown }>`
    select id as "jobId", status, error, created_at as "startedAt", finished_at as "finishedAt", state, result
    from project_jobs
    where project_id = ${projectId}::uuid and kind = ${clockAdvance.kind}
    order by id desc limit 1`.execute(db);
  // Results are kept for a day.
  if (!rows[0] || (rows[0].status === "SUCCEEDED" && rows[0].result === null)) return null;
  const { state, result, ...row } = rows[0];
  return { ...shownRow<LastRow>(row), happened: Happened.parse(result ?? state.happened ?? {}) };
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

/** Sandboxes of a page. */
const SANDBOXES_AT_ONCE = 500;

/**
 * Returns the next sandboxes by id, after one, whose clocks are ahead of the server's and that are not being
 * advanced; none behind the last.
 */
export const sandboxesAhead = async ({ db }: Work, after = NIL_ID): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id from projects p
    where id > ${after}::uuid and clock_ahead_ms > 0 and deleted_at is null and not exists (
      select from project_jobs j where j.project_id = p.id and j.kind = ${clockAdvance.kind}
        and j.status in ('QUEUED', 'RUNNING'))
    order by id limit ${SANDBOXES_AT_ONCE}`.execute(db);
  return rows.map(({ id }) => id);
};

/** Does the next of what is due by the clock of a sandbox. @returns whether anything could be done */
export const followClock = async (work: Work, projectId: string): Promise<boolean> => {
  const done = await settleNext(await inProjectTime(work, projectId), projectId);
  return done.what === "DONE";
};
