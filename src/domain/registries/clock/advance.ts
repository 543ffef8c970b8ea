import { sql } from "kysely";
import { z } from "zod";
import { readClock } from "../../accounts/projects/clock.ts";
import { DESIGNERS } from "../../kernel/access.ts";
import { sweepSoon } from "../../economy/segments/sweeps.ts";
import { holdConfig } from "../../kernel/config-lock.ts";
import { DomainError } from "../../kernel/errors.ts";
import { atProjectTime } from "../../kernel/project-time.ts";
import { readWithin } from "../../kernel/read.ts";
import type { Work } from "../../kernel/work.ts";
import { type JobInProgress, jobKind, type Step } from "../../long-work/job-kind.ts";
import { areEventsWaiting } from "../../progression/waiting-work.ts";
import { Happened, withDone } from "./happened.ts";
import { settleNext } from "./settle-next.ts";

/** The clock moves in whole minutes, so that what falls due within one is done together, in ms. */
export const CLOCK_STEP_MS = 60_000;
/** Maximum moves of the clock in one advance. */
export const MOVES_MAX = 50_000;
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
