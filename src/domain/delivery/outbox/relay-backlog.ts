import {
  type Backlog,
  BACKLOG_LEAST,
  type Backlogs,
  RELAY_BYTES,
  RELAY_ROWS,
  type RelaySchedule,
  SHARE_BYTES,
} from "./relay-schedule.ts";
import {
  countRows,
  EntriesOfRound,
  isOfRanks,
  type OutboxRow,
  readCommits,
  readRows,
  requestRows,
  takenOf,
} from "./read-queue.ts";
import { prepared, readReceivers, type RelayParts, type Round, sendRound, sumBytes } from "./relay.ts";

/** Maximum number of commits of a backlog in a round, of their rows, and of pages in which these are read. */
const BACKLOG_COMMITS = 500;
const BACKLOG_PAGES = 8;
const BACKLOG_ROWS = BACKLOG_PAGES * RELAY_ROWS;
/** Number of changed entries from which a round reads no further page. */
const BACKLOG_ENTRIES = 20_000;

type BacklogParts = RelayParts & { schedule: RelaySchedule; backlogs: Backlogs };

/** Number of rows published, and how long to wait before the next round, in ms. */
export type RelayedBacklog = { rows: number; restMs: number };

/** Whether a shared round would have taken as much: a backlog that grows meanwhile stays one. */
const isSmall = ({ queued, rows }: Pick<Round, "queued" | "rows">): boolean =>
  queued.length < BACKLOG_LEAST && sumBytes(rows) < SHARE_BYTES;

/**
 * Publishes the next rows of a backlog. Of changes of boards it reads on until it has many entries, since
 * later commits change the same entries again, and applies only the last change of each. When it fails, its
 * project is no backlog any more: `schedule` decides how its rows are tried.
 */
export const relayBacklog = async (relay: BacklogParts, backlog: Backlog): Promise<RelayedBacklog> => {
  const { schedule, backlogs } = relay;
  if (!backlogs.has(backlog)) return { rows: 0, restMs: 0 };
  const startMs = performance.now();
  try {
    const { hasMore, ...round } = await readRound(relay, backlog);
    const rows = countRows(round.queued);
    const ours = round.queued.length === 0 ? 0 : await sendRound(relay, round, { isBacklog: true });
    if (!hasMore && isSmall(round)) backlogs.end(backlog);
    const [tookMs, wasOurs] = [performance.now() - startMs, 2 * ours >= rows];
    return { rows, restMs: backlogs.has(backlog) ? backlogs.restAfter(backlog, { tookMs, wasOurs }) : 0 };
  } catch (error) {
    backlogs.end(backlog);
    schedule.setApart(backlog.projectId);
    throw error;
  }
};

/** Reads page after page, and keeps of changes of boards only the last of each entry. */
const readRound = async (
  { transact }: RelayParts,
  backlog: Backlog,
): Promise<Round & { hasMore: boolean }> => {
  const commits = await transact((work) => readCommits(work, backlog, BACKLOG_COMMITS));
  const asked = requestRows([commits], BACKLOG_ROWS);
  const entries = new EntriesOfRound();
  const rows: OutboxRow[] = [];
  let read = 0;
  for (let page = 0; page < BACKLOG_PAGES && read < asked.length; page++) {
    const next = asked.slice(read, read + RELAY_ROWS);
    const found = await transact((work) =>
      readRows(work, next, { bytes: RELAY_BYTES, laneBytes: RELAY_BYTES }),
    );
    // The first of them, as many as fit.
    read += countRows(found.queued);
    entries.add(found.rows);
    for (const row of found.rows) rows.push(isOfRanks(row) ? { ...row, data: {} } : row);
    if (entries.size >= BACKLOG_ENTRIES || !found.rows.every(isOfRanks)) break;
  }
  const hasMore = commits.length === BACKLOG_COMMITS || read < countRows(commits);
  const receivers = await transact((work) => readReceivers(work, rows, entries));
  const queued = takenOf(asked.slice(0, read));
  return { hasMore, queued, rows, ...(await prepared(rows, { entries, receivers })) };
};
