import type { Events } from "../../kernel/events/domain-events.ts";
import type { EntryChange } from "../../kernel/events/events.ts";
import { readNoticeLists } from "../../leaderboards/notices/notice-lists.ts";
import type { RankStore } from "../../evaluation/boards/ranks.ts";
import { finishRelay, happened, projectsOfWebhooks } from "./finish-relay.ts";
import { publishToRooms } from "./publish-to-rooms.ts";
import { type OutboxRow, type Taken, type TakenCommit, takeRows } from "./read-queue.ts";
import { RelaySchedule, type RoundSize } from "./relay-schedule.ts";
import { messageOf } from "./stream.ts";
import { type Changed, notifyChanged } from "./notify-changed.ts";
import { type MessageFor, periodTopic, playerTopic, type Topics } from "../../kernel/events/topics.ts";
import { eventsFor, type PlannedEvent } from "../webhooks/plan.ts";
import { readSubscribers } from "../webhooks/subscribers.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** Bytes of a message to a player's topic, beyond which further rows go into another one. */
const MESSAGE_BYTES = 64 * 1024;

export type RelayParts = {
  transact: Transact;
  ranks: RankStore;
  topics: Topics;
  /** Schedules rounds fairly; absent: without memory. */
  schedule?: RelaySchedule;
  /** Called with partitions that are finished before the others, and those in which `more` may wait. */
  onRelayed?: (parts: readonly number[], more: readonly number[]) => void;
};

/** Number of rows published in a round, and the partitions in which more may wait. */
export type Relayed = { rows: number; again: readonly number[] };

/**
 * Publishes the next committed rows of some partitions: lines to the players' topics, then entries to the
 * rank index, then, in one commit, rank notices and the removal of the queue rows. Partitions without rank
 * changes are finished before the others. The cost of a round hardly depends on the number of partitions. A
 * crash in between publishes the rows again: the index keeps versions and players' rooms keep sequence
 * numbers, so repetition is harmless. `schedule` decides what is tried after a failed round.
 */
export const relayPartitions = async (relay: RelayParts, parts: readonly number[]): Promise<Relayed> => {
  const { schedule = new RelaySchedule() } = relay;
  const plan = schedule.next();
  let projects = new Set<string>();
  const had: RoundSize = { rows: plan.rows, bytes: plan.bytes };
  try {
    const seen = (found: Set<string>) => void (projects = found);
    const round = await readRound(relay, parts, { plan, schedule, seen });
    had.rows = round.rows.length;
    had.bytes = sumBytes(round.rows);
    const relayed = round.queued.length === 0 ? { rows: 0, again: round.again } : await send(relay, round);
    schedule.done(plan, relayed.rows);
    return relayed;
  } catch (error) {
    schedule.failed(plan, projects, had);
    throw error;
  }
};

const sumBytes = (rows: readonly OutboxRow[]): number => rows.reduce((sum, { bytes }) => sum + bytes, 0);

const send = async (
  { transact, ranks, topics, onRelayed = () => undefined }: RelayParts,
  { queued, rows, again, periods, round, planned }: Round,
): Promise<Relayed> => {
  await publishToPlayers(topics, rows);
  publishToRooms(topics, rows);
  const finish = (work: Work, commits: readonly TakenCommit[]): Promise<void> =>
    finishRelay(work, commits, { rows, planned });
  const [ranking, others] = splitByPeriods(queued, periods);
  if (others.length > 0) await transact((work) => finish(work, others));
  if (ranking.length === 0) return { rows: rows.length, again };
  const free = new Set(others.map(({ part }) => part));
  onRelayed(
    [...free],
    again.filter((part) => free.has(part)),
  );
  await applyRanks({ ranks, topics }, periods);
  await notifyChanged({ transact, ranks, topics }, round, (work) => finish(work, ranking));
  return { rows: rows.length, again: again.filter((part) => !free.has(part)) };
};

/** Splits commits into those of partitions with changes of boards, and the others. */
const splitByPeriods = (
  queued: readonly TakenCommit[],
  periods: readonly Period[],
): [ranking: TakenCommit[], others: TakenCommit[]] => {
  const ids = new Set(periods.flatMap(({ rowIds }) => rowIds));
  const parts = new Set(
    queued.filter(({ outbox_ids: of }) => of.some((id) => ids.has(id))).map(({ part }) => part),
  );
  return [queued.filter(({ part }) => parts.has(part)), queued.filter(({ part }) => !parts.has(part))];
};

type Round = Taken & { periods: Period[]; round: Changed; planned: PlannedEvent[] };

/** Reads a round, and prepares its webhook events while no transaction is open. */
const readRound = async (
  { transact }: RelayParts,
  parts: readonly number[],
  of: Parameters<typeof takeRows>[2],
): Promise<Round> => {
  const { now, subscribers, ...read } = await transact(async (work) => {
    const taken = await takeRows(work, parts, of);
    const periods = periodsOf(taken.rows);
    const changed = periods.map(({ projectId, periodId, entries }) => ({
      projectId,
      periodId,
      playerIds: new Set(entries.keys()),
    }));
    const lists = await readNoticeLists(work, changed);
    const receivers = await readSubscribers(work, projectsOfWebhooks(taken.rows));
    return { ...taken, periods, round: { changed, lists }, subscribers: receivers, now: work.now };
  });
  return { ...read, planned: await eventsFor(subscribers, read.rows.map(happened), now) };
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
    // A repetition moves nothing: if the first attempt died before this, rooms notice with their next read.
    if (moved) topics.publish(periodTopic(projectId, periodId), moved);
  });
  await Promise.all(applying);
};

const publishToPlayers = async (topics: Topics, rows: readonly OutboxRow[]): Promise<void> => {
  const rowsOf = Map.groupBy(
    rows.filter(({ player_id: playerId, player_seq: seq }) => playerId !== null && seq !== null),
    (row) => playerTopic(row.project_id, row.player_id!),
  );
  await topics.publishIfSubscribed(
    [...rowsOf].flatMap(([topic, own]) =>
      inMessages(own).map((some): MessageFor => [
        topic,
        () => some.map((row) => messageOf({ ...row, seq: row.player_seq! })),
      ]),
    ),
  );
};

/** Groups rows into messages, in order. */
const inMessages = (rows: readonly OutboxRow[]): OutboxRow[][] => {
  const messages: OutboxRow[][] = [];
  let left = 0;
  for (const row of rows) {
    if (left <= 0) {
      messages.push([]);
      left = MESSAGE_BYTES;
    }
    messages.at(-1)!.push(row);
    left -= row.bytes;
  }
  return messages;
};
