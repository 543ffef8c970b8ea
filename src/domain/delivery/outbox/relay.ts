import { sql } from "kysely";
import {
  type Changed,
  countRows,
  EntriesOfRound,
  notifyChanged,
  type OutboxRow,
  type TakenCommit,
  takeRows,
} from "./read-queue.ts";
import { type Backlog, type Backlogs, RelaySchedule, type RoundSize } from "./relay-schedule.ts";
import { messageOf } from "./stream.ts";
import { isWebhookType, maySendAs, sentAs } from "../webhooks/catalogue.ts";
import {
  eventsFor,
  type Happened,
  type PlannedEvent,
  planWebhooks,
  readSubscribers,
} from "../webhooks/plan.ts";
import type { RankStore } from "../../evaluation/boards/ranks.ts";
import { type ChatLine } from "../../kernel/events/social-views.ts";
import {
  boardTopic,
  chatTopic,
  lobbiesTopic,
  lobbyTopic,
  type MessageFor,
  noticeTopic,
  playerTopic,
  type Topics,
} from "../../kernel/topics.ts";
import type { Events, EventType } from "../../kernel/events/domain-events.ts";
import type { Json } from "../../kernel/events/events.ts";
import { kept } from "../../kernel/statements.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { readNoticeLists } from "../../leaderboards/notices/notice-lists.ts";

/** Projects with events that webhooks may subscribe to. */
const projectsOfWebhooks = (rows: readonly OutboxRow[]): Set<string> =>
  new Set(rows.filter(({ type }) => isWebhookType(maySendAs(type))).map(({ project_id }) => project_id));

/** Returns the event that webhooks receive of a row. */
const happened = (row: OutboxRow): Happened => ({
  id: row.id,
  projectId: row.project_id,
  playerId: row.player_id,
  createdAt: row.created_at,
  ...sentAs(row),
});

/**
 * Finishes a round: removes its commits from the queue, and plans their webhook deliveries in the same
 * commit. Another relay may have published them too; only the one whose delete finds a commit unchanged in
 * the queue plans it, so that it is planned once, and after earlier ones.
 * @returns the number of rows whose commits were still queued as they were taken
 */
export const finishRelay = async (
  work: Work,
  queued: readonly TakenCommit[],
  { rows, planned }: { rows: readonly OutboxRow[]; planned: readonly PlannedEvent[] },
): Promise<number> => {
  const ours = await deleteRelayed(work, queued, rows);
  const rowOf = new Map(rows.map(({ id, row_id: rowId }) => [id, rowId]));
  await planWebhooks(
    work,
    planned.filter(({ id }) => ours.has(rowOf.get(id)!)),
  );
  return ours.size;
};

/** Whether one of the commits is still queued as it was taken: no other relay has finished them all. */
const isAnyQueued = async ({ db }: Work, queued: readonly TakenCommit[]): Promise<boolean> => {
  const { rows } = await kept(
    db,
    sql<{ is_any: boolean }>`
    select exists (
      select from json_to_recordset(${JSON.stringify(keysOf(queued))}::json)
        as x(p uuid, h smallint, s bigint, n int, k int)
      join outbox_q t on t.project_id = x.p and t.part = x.h and t.seq = x.s
      where cardinality(t.outbox_ids) = x.n) as is_any`,
  );
  return rows[0]!.is_any;
};

/**
 * Types whose rows are no longer needed after relaying. Texts of chat are kept in its own tables, and deleted
 * from there.
 */
const RELAYED_ONCE: ReadonlySet<string> = new Set<EventType>([
  "leaderboard.entries_changed",
  "leaderboard.changed",
  "chat.changed",
  "player.notice",
]);

type Gone = Pick<TakenCommit, "project_id" | "part" | "seq">;

const keyOf = ({ project_id: project, part, seq }: Gone): string => `${project}:${part}:${seq}`;

/** Commits as they were taken: ids that waited, and those taken. */
const keysOf = (queued: readonly TakenCommit[]) =>
  queued.map(({ project_id, part, seq, outbox_ids: { length }, waiting }) => ({
    p: project_id,
    h: part,
    s: seq,
    n: waiting,
    k: length,
  }));

/**
 * Deletes the queue rows, or the first ids of those that were taken in part, and with them outbox rows that
 * are no longer needed: one statement. It locks the queue rows first and in one order, so that relays that
 * took the same commits do not deadlock.
 * @returns the outbox rows whose commits were still queued as they were taken
 */
const deleteRelayed = async (
  { db }: Work,
  queued: readonly TakenCommit[],
  rows: readonly OutboxRow[],
): Promise<Set<string>> => {
  const ids = new Set(queued.flatMap(({ outbox_ids: of }) => of));
  const relayed = rows
    .filter(({ type, row_id: id }) => RELAYED_ONCE.has(type) && ids.has(id))
    .map(({ project_id, row_id }) => ({ p: project_id, i: row_id }));
  const gone = await kept(
    db,
    sql<Gone>`
    with x as materialized (
      select * from json_to_recordset(${JSON.stringify(keysOf(queued))}::json)
        as x(p uuid, h smallint, s bigint, n int, k int)),
    locked as materialized (
      select x.* from x join outbox_q t on t.project_id = x.p and t.part = x.h and t.seq = x.s
      where cardinality(t.outbox_ids) = x.n
      order by x.p, x.h, x.s for update of t),
    cut as (
      update outbox_q t set outbox_ids = t.outbox_ids[x.k + 1:] from locked x
      where t.project_id = x.p and t.part = x.h and t.seq = x.s and cardinality(t.outbox_ids) = x.n
        and x.k < x.n
      returning t.project_id, t.part, t.seq),
    gone as (
      delete from outbox_q t using locked x
      where t.project_id = x.p and t.part = x.h and t.seq = x.s and cardinality(t.outbox_ids) = x.n
        and x.k = x.n
      returning t.project_id, t.part, t.seq),
    relayed as (
      delete from outbox o using json_to_recordset(${JSON.stringify(relayed)}::json) as x(p uuid, i uuid)
      where o.project_id = x.p and o.id = x.i and (select count(*) from locked) >= 0)
    select * from cut union all select * from gone`,
  );
  const ours = new Set(gone.rows.map(keyOf));
  return new Set(queued.filter((row) => ours.has(keyOf(row))).flatMap(({ outbox_ids: of }) => of));
};

type Row = { project_id: string; type: EventType; data: Json };
type Publish = (topics: Topics, projectId: string, data: Json) => void;

/** How to publish an outbox row to rooms, by its type. */
const PUBLISH: Partial<Record<EventType, Publish>> = {
  "lobby.changed": (topics, projectId, data) => {
    const { lobbyId, version, occurrences, isListed } = data as Events["lobby.changed"];
    topics.publish(lobbyTopic(projectId, lobbyId), { version, occurrences });
    if (isListed) topics.publish(lobbiesTopic(projectId), lobbyId);
  },
  "leaderboard.period_closed": (topics, projectId, data) => {
    const { leaderboardId } = data as Events["leaderboard.period_closed"];
    topics.publish(boardTopic(projectId, leaderboardId), data);
  },
  "leaderboard.changed": (topics, projectId, data) => {
    const { leaderboardId } = data as Events["leaderboard.changed"];
    topics.publish(boardTopic(projectId, leaderboardId), null);
  },
  "player.notice": (topics, projectId, data) => {
    const { playerId, notice } = data as Events["player.notice"];
    topics.publish(noticeTopic(projectId, playerId), notice);
  },
};

type Said = { channelId: string; lines: readonly ChatLine[] };

/** Returns a row's line for the readers of a channel. The data of other rows is not touched, nor parsed. */
const saidIn = (row: Row): Said | undefined => {
  if (row.type === "chat.changed") return row.data as Events["chat.changed"];
  if (row.type !== "chat.message_sent") return undefined;
  const message = row.data as Events["chat.message_sent"];
  return { channelId: message.channelId, lines: [{ name: "chat.message", data: message }] };
};

/**
 * Notifies the rooms that show these rows; rows of other types are ignored. All lines of a channel are
 * published at once: there may be many, and each message costs every listening process.
 */
const publishToRooms = (topics: Topics, rows: readonly Row[]): void => {
  const channels = new Map<string, ChatLine[]>();
  for (const row of rows) {
    const said = saidIn(row);
    if (!said) {
      PUBLISH[row.type]?.(topics, row.project_id, row.data);
      continue;
    }
    const topic = chatTopic(row.project_id, said.channelId);
    const lines = channels.get(topic);
    if (lines) lines.push(...said.lines);
    else channels.set(topic, [...said.lines]);
  }
  for (const [topic, lines] of channels) topics.publish(topic, lines);
};

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
type Relayed = { rows: number; again: readonly number[]; backlogs: readonly Backlog[] };

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
    // Of `again`, those that are not finished before the others.
    let left = again;
    if (round.queued.length > 0)
      await sendRound(relay, round, {
        onOthers: (free) => {
          left = again.filter((part) => !free.has(part));
          relay.onRelayed?.(
            [...free],
            again.filter((part) => free.has(part)),
          );
        },
      });
    schedule.done(plan, had.rows);
    return { rows: had.rows, again: left, backlogs: found };
  } catch (error) {
    for (const backlog of found) backlogs?.end(backlog);
    schedule.failed(plan, projects, had);
    throw error;
  }
};

/** Bytes of some rows. */
export const sumBytes = (rows: readonly OutboxRow[]): number =>
  rows.reduce((sum, { bytes }) => sum + bytes, 0);

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
  await Promise.all([
    ranks.reached(Math.max(...ranking.map(({ seq }) => seq))),
    entries.apply({ ranks, topics }),
  ]);
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
        () => some.map((row) => messageOf(row, row.player_seq!)),
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
