import { sql } from "kysely";
import type { Events } from "../domain-events.ts";
import type { EntryChange } from "../events.ts";
import { readNoticeLists } from "../leaderboards/notices/notice-lists.ts";
import type { RankStore } from "../leaderboards/ranks.ts";
import { finishRelay, type OutboxRow, projectsOfWebhooks, type QueueRow } from "./finish-relay.ts";
import { publishToRooms } from "./publish-to-rooms.ts";
import { messageOf } from "./stream.ts";
import { type Changed, tellChanged } from "./tell-changed.ts";
import { periodTopic, playerTopic, type Topics } from "../topics.ts";
import { readSubscribers, type Subscribers } from "../webhooks/subscribers.ts";
import { KEPT, type Transact, type Work } from "../work.ts";

/** Commits of a partition, and outbox rows of all partitions, that are relayed in one round. */
const RELAY_COMMITS = 50;
const RELAY_ROWS = 4_000;

export type RelayParts = {
  transact: Transact;
  ranks: RankStore;
  topics: Topics;
  /** Hears of partitions that are done with before the others, and of those in which `more` may wait. */
  onRelayed?: (parts: readonly number[], more: readonly number[]) => void;
};

/** What a round has sent, and the partitions in which more may wait. */
export type Relayed = { rows: number; again: readonly number[] };

/**
 * Sends the next committed rows of some partitions: entries into the rank index, then lines to the players'
 * topics, then what changed in ranks is told and the queue rows go, in one commit. Partitions that have
 * nothing to tell that way do not wait for it. What a round costs hardly depends on the number of
 * partitions. A crash in between sends the rows again: the index keeps versions and players' rooms keep
 * sequence numbers, so twice is once.
 */
export const relayPartitions = async (
  { transact, ranks, topics, onRelayed = () => undefined }: RelayParts,
  parts: readonly number[],
): Promise<Relayed> => {
  const { again, rows, periods, round, subscribers, ...read } = await transact((work) =>
    readRound(work, parts),
  );
  if (read.queued.length === 0) return { rows: 0, again };
  await applyRanks({ ranks, topics }, periods);
  await publishToPlayers(topics, rows);
  publishToRooms(topics, rows);
  const finish = (work: Work, queued: readonly QueueRow[]): Promise<void> =>
    finishRelay(work, queued, { rows, subscribers });
  const [ranking, others] = splitByPeriods(read.queued, periods);
  if (ranking.length === 0 || others.length === 0) {
    await tellChanged({ transact, ranks, topics }, round, (work) => finish(work, read.queued));
    return { rows: rows.length, again };
  }
  await transact((work) => finish(work, others));
  const free = new Set(others.map(({ part }) => part));
  onRelayed(
    [...free],
    again.filter((part) => free.has(part)),
  );
  await tellChanged({ transact, ranks, topics }, round, (work) => finish(work, ranking));
  return { rows: rows.length, again: again.filter((part) => !free.has(part)) };
};

/** The commits of partitions that have changes of boards among theirs, and those of the others. */
const splitByPeriods = (
  queued: readonly QueueRow[],
  periods: readonly Period[],
): [ranking: QueueRow[], others: QueueRow[]] => {
  const ids = new Set(periods.flatMap(({ rowIds }) => rowIds));
  const parts = new Set(
    queued.filter(({ outbox_ids: of }) => of.some((id) => ids.has(id))).map(({ part }) => part),
  );
  return [queued.filter(({ part }) => parts.has(part)), queued.filter(({ part }) => !parts.has(part))];
};

/** The commits of a round, and the partitions of which it has not taken all. */
type Taken = { queued: QueueRow[]; again: number[] };
type Round = Taken & { rows: OutboxRow[]; periods: Period[]; round: Changed; subscribers: Subscribers[] };

const readRound = async (work: Work, parts: readonly number[]): Promise<Round> => {
  const taken = takeTurns(await readQueue(work, parts));
  const rows = await readRows(work, taken.queued);
  const periods = periodsOf(rows);
  const changed = periods.map(({ projectId, periodId, entries }) => ({
    projectId,
    periodId,
    playerIds: new Set(entries.keys()),
  }));
  const lists = await readNoticeLists(work, changed);
  const subscribers = await readSubscribers(work, projectsOfWebhooks(rows));
  return { ...taken, rows, periods, round: { changed, lists }, subscribers };
};

/** The oldest commits of each partition, in order. */
const readQueue = async ({ db }: Work, parts: readonly number[]): Promise<QueueRow[]> => {
  const found = await sql<QueueRow>`
    ${sql.raw(KEPT)} select q.project_id, q.part, q.seq, q.outbox_ids
    from unnest(${`{${parts.join(",")}}`}::smallint[]) as u(p) cross join lateral (
      select project_id, part, seq, outbox_ids from outbox_q where part = u.p
      order by seq limit ${RELAY_COMMITS}) q
    order by q.part, q.seq`.execute(db);
  return found.rows;
};

/**
 * Takes commits until there are enough rows: the first of each partition, the second of each, and so on, so
 * that each partition keeps its order and none stands before the others.
 */
const takeTurns = (queue: readonly QueueRow[]): Taken => {
  const byPart = Map.groupBy(queue, ({ part }) => part);
  const queued: QueueRow[] = [];
  let rows = 0;
  for (let turn = 0; turn < RELAY_COMMITS && rows < RELAY_ROWS; turn++) {
    for (const commits of byPart.values()) {
      const commit = commits[turn];
      if (!commit || rows >= RELAY_ROWS) continue;
      queued.push(commit);
      rows += commit.outbox_ids.length;
    }
  }
  const taken = Map.groupBy(queued, ({ part }) => part);
  const isMore = ([part, { length }]: [number, QueueRow[]]) =>
    length === RELAY_COMMITS || length > (taken.get(part)?.length ?? 0);
  return { queued, again: [...byPart].filter(isMore).map(([part]) => part) };
};

const readRows = async ({ db }: Work, queued: readonly QueueRow[]): Promise<OutboxRow[]> => {
  const ids = queued.flatMap((row) => row.outbox_ids.map((id) => ({ p: row.project_id, i: id })));
  if (ids.length === 0) return [];
  const found = await sql<OutboxRow>`
    ${sql.raw(KEPT)} select o.id, o.project_id, o.type, o.player_id, o.player_seq, o.data, o.created_at
    from json_to_recordset(${JSON.stringify(ids)}::json) as r(p uuid, i uuid)
    join outbox o on o.project_id = r.p and o.id = r.i`.execute(db);
  const byId = new Map(found.rows.map((row) => [row.id, row]));
  return ids.flatMap(({ i }) => byId.get(i) ?? []);
};

type Period = { projectId: string; periodId: string; entries: Map<string, EntryChange>; rowIds: string[] };

const newPeriod = (projectId: string, periodId: string): Period => ({
  projectId,
  periodId,
  entries: new Map(),
  rowIds: [],
});

const periodsOf = (rows: readonly OutboxRow[]): Period[] => {
  const periods = new Map<string, Period>();
  for (const row of rows) {
    if (row.type !== "leaderboard.entries_changed") continue;
    const { periodId, entries } = row.data as Events["leaderboard.entries_changed"];
    const period = periods.get(periodId) ?? newPeriod(row.project_id, periodId);
    period.rowIds.push(row.id);
    // Several commits may have changed one player: the newest version is enough.
    for (const entry of entries) {
      const other = period.entries.get(entry[0]);
      if (!other || other[3] < entry[3]) period.entries.set(entry[0], entry);
    }
    periods.set(periodId, period);
  }
  return [...periods.values()];
};

const applyRanks = async (
  { ranks, topics }: Pick<RelayParts, "ranks" | "topics">,
  periods: readonly Period[],
): Promise<void> => {
  const applying = periods.map(async ({ projectId, periodId, entries }) => {
    const moved = await ranks.apply(projectId, periodId, [...entries.values()]);
    // A repeat moves nothing: where the first try died before this, rooms find out when they read again.
    if (moved) topics.publish(periodTopic(projectId, periodId), moved);
  });
  await Promise.all(applying);
};

const publishToPlayers = async (topics: Topics, rows: readonly OutboxRow[]): Promise<void> => {
  const rowsOf = Map.groupBy(
    rows.filter(({ player_id: playerId, player_seq: seq }) => playerId !== null && seq !== null),
    (row) => playerTopic(row.project_id, row.player_id!),
  );
  await topics.publishHeard(
    [...rowsOf].map(([topic, own]) => [
      topic,
      () => own.map((row) => messageOf({ ...row, seq: row.player_seq! })),
    ]),
  );
};
