import type { Backlog, Backlogs } from "./backlogs.ts";
import { EntriesOfRound } from "./changed-entries.ts";
import { readNoticeLists } from "../../leaderboards/notices/notice-lists.ts";
import type { RankStore } from "../../evaluation/boards/ranks.ts";
import { finishRelay, happened, isAnyQueued, projectsOfWebhooks } from "./finish-relay.ts";
import { publishToRooms } from "./publish-to-rooms.ts";
import { type OutboxRow, type TakenCommit, takeRows } from "./read-queue.ts";
import { RelaySchedule, type RoundSize } from "./relay-schedule.ts";
import { messageOf } from "./stream.ts";
import { type Changed, notifyChanged } from "./notify-changed.ts";
import { type MessageFor, playerTopic, type Topics } from "../../kernel/events/topics.ts";
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
  /** Backlogs that the caller relays by `relayBacklog`; absent: shared rounds take everything. */
  backlogs?: Backlogs;
  /** Called with partitions that are finished before the others, and those in which `more` may wait. */
  onRelayed?: (parts: readonly number[], more: readonly number[]) => void;
};

/**
 * Number of rows published in a round, the partitions in which more may wait, and the backlogs that it has
 * found.
 */
export type Relayed = { rows: number; again: readonly number[]; backlogs: readonly Backlog[] };

/**
 * Publishes the next committed rows of some partitions: lines to the players' topics, then entries to the
 * rank index, then, in one commit, rank notices and the removal of the queue rows. Partitions without rank
 * changes are finished before the others. The cost of a round hardly depends on the number of partitions. A
 * crash in between publishes the rows again: the index keeps versions and players' rooms keep sequence
 * numbers, so repetition is harmless. `schedule` decides what is tried after a failed round.
 */
export const relayPartitions = async (relay: RelayParts, parts: readonly number[]): Promise<Relayed> => {
  const { schedule = new RelaySchedule(), backlogs } = relay;
  const plan = schedule.next();
  let projects = new Set<string>();
  const found: Backlog[] = [];
  const had: RoundSize = { rows: plan.rows, bytes: plan.bytes };
  try {
    const { again, ...round } = await readRound(relay, parts, {
      plan,
      schedule,
      backlogs,
      seen: (of) => void (projects = of),
      found: (backlog) => void found.push(backlog),
    });
    had.rows = countRows(round.queued);
    had.bytes = sumBytes(round.rows);
    const left = round.queued.length === 0 ? again : await sendShared(relay, round, again);
    schedule.done(plan, had.rows);
    return { rows: had.rows, again: left, backlogs: found };
  } catch (error) {
    for (const backlog of found) backlogs?.end(backlog);
    schedule.failed(plan, projects, had);
    throw error;
  }
};

/** Number of rows of some commits: each may hold several lines. */
export const countRows = (queued: readonly TakenCommit[]): number =>
  queued.reduce((sum, { outbox_ids: ids }) => sum + ids.length, 0);

const sumBytes = (rows: readonly OutboxRow[]): number => rows.reduce((sum, { bytes }) => sum + bytes, 0);

/** @returns those of the partitions `again` that are not finished before the others */
const sendShared = async (
  relay: RelayParts,
  round: Round,
  again: readonly number[],
): Promise<readonly number[]> => {
  let left = again;
  await sendRound(relay, round, {
    onOthers: (free) => {
      left = again.filter((part) => !free.has(part));
      relay.onRelayed?.(
        [...free],
        again.filter((part) => free.has(part)),
      );
    },
  });
  return left;
};

/** `onOthers`: called with partitions that are finished before ranks are applied. */
type Sending = { onOthers?: (parts: ReadonlySet<number>) => void; isBacklog?: boolean };

/**
 * Sends a round, and removes it from the queue.
 * @returns the number of its rows that no other relay has removed
 */
export const sendRound = async (
  { transact, ranks, topics }: RelayParts,
  { queued, rows, entries, changed, planned }: Round,
  { onOthers = () => undefined, isBacklog = false }: Sending = {},
): Promise<number> => {
  await publishToPlayers(topics, rows);
  publishToRooms(topics, rows);
  let ours = 0;
  const finish = async (work: Work, commits: readonly TakenCommit[]): Promise<void> => {
    ours += await finishRelay(work, commits, { rows, planned });
  };
  const [ranking, others] = splitByEntries(queued, entries.rowIds);
  if (others.length > 0) await transact((work) => finish(work, others));
  if (ranking.length === 0) return ours;
  onOthers(new Set(others.map(({ part }) => part)));
  await entries.apply({ ranks, topics });
  const isGone = isBacklog && !(await transact((work) => isAnyQueued(work, ranking)));
  if (!isGone)
    await notifyChanged({ transact, ranks, topics }, { ...changed, isBacklog }, (work) =>
      finish(work, ranking),
    );
  return ours;
};

/** Splits commits into those of partitions with changes of boards, and the others. */
const splitByEntries = (
  queued: readonly TakenCommit[],
  ids: ReadonlySet<string>,
): [ranking: TakenCommit[], others: TakenCommit[]] => {
  const parts = new Set(
    queued.filter(({ outbox_ids: of }) => of.some((id) => ids.has(id))).map(({ part }) => part),
  );
  return [queued.filter(({ part }) => parts.has(part)), queued.filter(({ part }) => !parts.has(part))];
};

/** What a round relays: commits, their rows, the entries that these change, and their webhook events. */
export type Round = {
  queued: readonly TakenCommit[];
  rows: readonly OutboxRow[];
  entries: EntriesOfRound;
  changed: Changed;
  planned: readonly PlannedEvent[];
};

type Taking = Parameters<typeof takeRows>[2];

/** Reads a shared round, and prepares its webhook events while no transaction is open. */
const readRound = async (
  { transact }: RelayParts,
  parts: readonly number[],
  of: Taking,
): Promise<Round & { again: readonly number[] }> => {
  const { again, queued, rows, ...read } = await transact(async (work) => {
    const taken = await takeRows(work, parts, of);
    const entries = new EntriesOfRound();
    entries.add(taken.rows);
    return { ...taken, entries, receivers: await readReceivers(work, taken.rows, entries) };
  });
  return { queued, rows, again, ...(await prepared(rows, read)) };
};

/** Who may have to be told of a round: lists with notices, and webhooks. */
export const readReceivers = async (work: Work, rows: readonly OutboxRow[], entries: EntriesOfRound) => {
  const changed = entries.lists;
  const lists = await readNoticeLists(work, changed);
  const subscribers = await readSubscribers(work, projectsOfWebhooks(rows));
  return { changed: { changed, lists }, subscribers, now: work.now };
};

type Receivers = Awaited<ReturnType<typeof readReceivers>>;

/** Prepares the webhook events of a round. */
export const prepared = async (
  rows: readonly OutboxRow[],
  { entries, receivers }: { entries: EntriesOfRound; receivers: Receivers },
): Promise<Pick<Round, "entries" | "changed" | "planned">> => {
  const { changed, subscribers, now } = receivers;
  const told = new Set(subscribers.map(({ projectId }) => projectId));
  const events = rows.filter(({ project_id: projectId }) => told.has(projectId)).map(happened);
  return { entries, changed, planned: await eventsFor(subscribers, events, now) };
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
