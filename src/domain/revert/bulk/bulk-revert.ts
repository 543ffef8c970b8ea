import { createHash } from "node:crypto";
import { z } from "zod";
import { ADMINS } from "../../kernel/access.ts";
import { conflict } from "../../kernel/errors.ts";
import { jobKind, type JobInProgress, type Step } from "../../long-work/job-kind.ts";
import type { Work } from "../../kernel/work.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import { ON_SHORTFALL } from "../revert-result.ts";
import { isOpen, openSelection, readMatched, type Selection, StoredFilter } from "./event-filter.ts";
import { countUnknown } from "./count-unknown.ts";
import { revertNext } from "./revert-next.ts";
import { noSums, Sums } from "./sums.ts";

/** Maximum number of events of one job. */
export const BULK_EVENTS_MAX = 100_000;
/** Number of events examined per step while they are counted. */
const COUNTED_PAGE = 5_000;
/** Number of events named in a result. */
const FIRST_IDS = 10;
/** Number of players counted; more are told as at least as many. */
const PLAYERS_MAX = 10_000;
/** Share of the progress, in percent, when everything is counted. */
const COUNTED_PERCENT = 10;

const Params = z.object({
  filter: StoredFilter,
  /** Events that arrived later are not meant. */
  upTo: z.string(),
  reason: z.string(),
  onShortfall: z.enum(ON_SHORTFALL),
  dryRun: z.boolean(),
});
type Params = z.output<typeof Params>;

/** What the events were when they were counted. */
const Counted = z.object({
  matched: z.int().default(0),
  statuses: z.record(z.string(), z.int()).default({}),
  /** Events of which only the ledger is still known. */
  unknown: z.int().default(0),
  firstEventIds: z.array(z.string()).default([]),
  /** Hashes of the players' external ids. */
  players: z.array(z.string()).default([]),
});
type Counted = z.output<typeof Counted>;

const State = z.object({
  isCounted: z.boolean().default(false),
  /** The last event that was examined. */
  after: z.string().default(NIL_ID),
  counted: Counted.prefault({}),
  sums: Sums.default(noSums()),
});
type State = z.output<typeof State>;

const HASH_LENGTH = 9;

/** Different for each job, so that it tells nothing about the player. */
const hashOf = (jobId: string, name: string): string =>
  createHash("sha256").update(`${jobId} ${name}`).digest("base64url").slice(0, HASH_LENGTH);

const countPage = async (
  work: Work,
  selection: Selection,
  { jobId, ...state }: State & { jobId: string },
): Promise<State> => {
  const page = { after: state.after, limit: COUNTED_PAGE };
  const { events, next } = await readMatched(work, selection, page);
  const { matched, firstEventIds, unknown } = state.counted;
  const statuses = { ...state.counted.statuses };
  for (const { status } of events) statuses[status] = (statuses[status] ?? 0) + 1;
  const players = new Set(state.counted.players);
  for (const { externalUserId } of events)
    if (players.size < PLAYERS_MAX) players.add(hashOf(jobId, externalUserId));
  if (matched + events.length > BULK_EVENTS_MAX)
    throw conflict("TOO_MANY_EVENTS", `the filter matches more than ${BULK_EVENTS_MAX} events: narrow it`);
  const processed = events.filter(({ status }) => status === "PROCESSED").map(({ id }) => id);
  const counted: Counted = {
    matched: matched + events.length,
    statuses,
    unknown: unknown + (await countUnknown(work, selection.projectId, processed)),
    firstEventIds: [...firstEventIds, ...events.filter(isOpen).map(({ id }) => id)].slice(0, FIRST_IDS),
    players: [...players],
  };
  return { ...state, counted, isCounted: next === undefined, after: next ?? NIL_ID };
};

/** What a dry run answers, and the first part of the result of a revert. */
const summaryOf = ({ matched, statuses, players, unknown, firstEventIds }: Counted) => ({
  matched,
  players: players.length,
  ...(players.length < PLAYERS_MAX ? {} : { hasMorePlayers: true }),
  firstEventIds,
  waiting: statuses["PENDING"] ?? 0,
  unknown,
});

/** Events that are not reverted, by status or by the code of the reason. */
const skippedOf = ({ statuses }: Counted, more: Readonly<Record<string, number>>): Record<string, number> => {
  const of = (status: string): number => statuses[status] ?? 0;
  const all = { REVERTED: of("REVERTED"), FAILED: of("FAILED"), REJECTED: of("REJECTED"), ...more };
  return Object.fromEntries(Object.entries(all).filter(([, n]) => n > 0));
};

const dryResult = (counted: Counted): Step => {
  const revertible = (counted.statuses["PROCESSED"] ?? 0) + (counted.statuses["PENDING"] ?? 0);
  return {
    result: { dryRun: true, ...summaryOf(counted), revertible, skipped: skippedOf(counted, {}) },
  };
};

const resultOf = ({ counted, sums }: State): Step => {
  const { refused, reverted, reversed, lives, shortfall, cancelled, left } = sums;
  const byReason: Record<string, number> = {};
  for (const reason of Object.values(refused)) byReason[reason] = (byReason[reason] ?? 0) + 1;
  const known = skippedOf(counted, byReason);
  const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, n) => sum + n, 0);
  // Others may have reverted some meanwhile.
  const meanwhile = counted.matched - reverted - sumOf(Object.values(known));
  const skipped = meanwhile > 0 ? { ...known, REVERTED: (known["REVERTED"] ?? 0) + meanwhile } : known;
  return {
    result: {
      dryRun: false,
      ...summaryOf(counted),
      reverted,
      skipped,
      refused: Object.entries(refused).map(([eventId, reason]) => ({ eventId, reason })),
      reversed,
      lives,
      shortfall,
      cancelled,
      left: left.toSorted(),
    },
  };
};

const step = async (work: Work, job: JobInProgress<Params>): Promise<Step> => {
  const { projectId, params, createdBy: actor } = job;
  const { filter, upTo, dryRun, reason, onShortfall } = params;
  const selection = await openSelection(work, { projectId, filter, upTo });
  const state = State.parse(job.state);
  if (!state.isCounted) {
    const next = await countPage(work, selection, { ...state, jobId: job.id });
    if (next.isCounted && dryRun) return dryResult(next.counted);
    return { state: next, progress: next.isCounted ? COUNTED_PERCENT : 0 };
  }
  const how = { reason, onShortfall, actor };
  const { after, sums } = await revertNext(work, selection, { ...state, how });
  const next = { ...state, sums, after: after ?? state.after };
  if (after === undefined) return resultOf(next);
  const { matched } = state.counted;
  const share = matched === 0 ? 1 : sums.reverted / matched;
  return { state: next, progress: COUNTED_PERCENT + (100 - COUNTED_PERCENT) * Math.min(1, share) };
};

/** Reverts many events, player by player; each event in one transaction with the job's own progress. */
export const bulkRevert = jobKind({
  kind: "BULK_REVERT",
  access: { scope: "players:write", roles: ADMINS },
  params: Params,
  step,
});
