import { sql } from "kysely";
import type { EntryChange, EventType, Events, Json } from "../events.ts";
import { readNoticeLists } from "../leaderboards/notices/notice-lists.ts";
import type { RankStore } from "../leaderboards/ranks.ts";
import { publishToRooms } from "./publish-to-rooms.ts";
import { type Changed, tellChanged } from "./tell-changed.ts";
import { periodTopic, type PlayerMessage, playerTopic, type Topics } from "../topics.ts";
import type { Happened } from "../webhooks/body.ts";
import { isWebhookType } from "../webhooks/event-types.ts";
import { planWebhooks } from "../webhooks/plan.ts";
import { readSubscribers, type Subscribers } from "../webhooks/subscribers.ts";
import type { Transact, Work } from "../work.ts";

/** Commits relayed in one round. */
const RELAY_COMMITS = 50;

export type RelayParts = { transact: Transact; ranks: RankStore; topics: Topics };

type QueueRow = { project_id: string; seq: string | number; outbox_ids: string[] };
type OutboxRow = {
  id: string;
  project_id: string;
  type: EventType;
  player_id: string | null;
  player_seq: string | number | null;
  data: Json;
  created_at: Date | string;
};

/**
 * Sends the next committed rows of a partition: entries into the rank index, then lines to the players'
 * topics, then what changed in ranks is told and the queue rows go, in one commit. A crash in between sends
 * them again: the index keeps versions and players' rooms keep sequence numbers, so twice is once.
 * @returns how many outbox rows went out, and whether more commits may wait
 */
export const relayPartition = async (
  { transact, ranks, topics }: RelayParts,
  part: number,
): Promise<{ rows: number; isMore: boolean }> => {
  const { queued, rows, periods, round, subscribers } = await transact((work) => readRound(work, part));
  if (queued.length === 0) return { rows: 0, isMore: false };
  await applyRanks({ ranks, topics }, periods);
  publishToPlayers(topics, rows);
  for (const row of rows) publishToRooms(topics, row);
  await tellChanged({ transact, ranks, topics }, round, async (work) => {
    await deleteRelayed(work, part, { queued, rows });
    await planWebhooks(work, subscribers, rows.map(happened));
  });
  return { rows: rows.length, isMore: queued.length === RELAY_COMMITS };
};

type Round = {
  queued: QueueRow[];
  rows: OutboxRow[];
  periods: Period[];
  round: Changed;
  subscribers: Subscribers[];
};

const readRound = async (work: Work, part: number): Promise<Round> => {
  const next = await readNext(work, part);
  const periods = periodsOf(next.rows);
  const changed = periods.map(({ projectId, periodId, entries }) => ({
    projectId,
    periodId,
    playerIds: new Set(entries.keys()),
  }));
  const lists = await readNoticeLists(work, changed);
  const subscribers = await readSubscribers(work, wanted(next.rows));
  return { ...next, periods, round: { changed, lists }, subscribers };
};

/** Projects with events that webhooks may want. */
const wanted = (rows: readonly OutboxRow[]): Set<string> =>
  new Set(rows.filter(({ type }) => isWebhookType(type)).map(({ project_id }) => project_id));

const happened = (row: OutboxRow): Happened => ({
  id: row.id,
  projectId: row.project_id,
  type: row.type,
  playerId: row.player_id,
  data: row.data,
  createdAt: new Date(row.created_at),
});

const readNext = async ({ db }: Work, part: number): Promise<{ queued: QueueRow[]; rows: OutboxRow[] }> => {
  const queue = await sql<QueueRow>`
    select project_id, seq, outbox_ids from outbox_q where part = ${part}
    order by seq limit ${RELAY_COMMITS}`.execute(db);
  const ids = queue.rows.flatMap((row) => row.outbox_ids.map((id) => ({ p: row.project_id, i: id })));
  if (ids.length === 0) return { queued: queue.rows, rows: [] };
  const found = await sql<OutboxRow>`
    select o.id, o.project_id, o.type, o.player_id, o.player_seq, o.data, o.created_at
    from json_to_recordset(${JSON.stringify(ids)}::json) as r(p uuid, i uuid)
    join outbox o on o.project_id = r.p and o.id = r.i`.execute(db);
  const byId = new Map(found.rows.map((row) => [row.id, row]));
  return { queued: queue.rows, rows: ids.flatMap(({ i }) => byId.get(i) ?? []) };
};

/**
 * Types whose rows nobody asks for again once they are relayed. Texts of chat are kept in its own tables, and
 * go from there.
 */
const TOLD_ONCE: ReadonlySet<string> = new Set<EventType>([
  "leaderboard.entries_changed",
  "chat.changed",
  "player.notice",
]);

/** Lets the queue rows go, and with them what has been of use: one statement. */
const deleteRelayed = async (
  { db }: Work,
  part: number,
  { queued, rows }: { queued: readonly QueueRow[]; rows: readonly OutboxRow[] },
): Promise<void> => {
  const keys = queued.map(({ project_id, seq }) => ({ p: project_id, s: Number(seq) }));
  const told = rows
    .filter(({ type }) => TOLD_ONCE.has(type))
    .map(({ project_id, id }) => ({ p: project_id, i: id }));
  await sql`
    with told as (
      delete from outbox o using json_to_recordset(${JSON.stringify(told)}::json) as x(p uuid, i uuid)
      where o.project_id = x.p and o.id = x.i)
    delete from outbox_q t using json_to_recordset(${JSON.stringify(keys)}::json) as x(p uuid, s bigint)
    where t.project_id = x.p and t.part = ${part} and t.seq = x.s`.execute(db);
};

type Period = { projectId: string; periodId: string; entries: Map<string, EntryChange> };

const periodsOf = (rows: readonly OutboxRow[]): Period[] => {
  const periods = new Map<string, Period>();
  for (const row of rows) {
    if (row.type !== "leaderboard.entries_changed") continue;
    const { periodId, entries } = row.data as Events["leaderboard.entries_changed"];
    const period = periods.get(periodId) ?? { projectId: row.project_id, periodId, entries: new Map() };
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
  for (const { projectId, periodId, entries } of periods) {
    await ranks.apply(projectId, periodId, [...entries.values()]);
    topics.publish(periodTopic(projectId, periodId), periodId);
  }
};

const publishToPlayers = (topics: Topics, rows: readonly OutboxRow[]): void => {
  const lines = new Map<string, PlayerMessage[]>();
  for (const row of rows) {
    if (row.player_id === null || row.player_seq === null) continue;
    const topic = playerTopic(row.project_id, row.player_id);
    const line = {
      seq: Number(row.player_seq),
      id: row.id,
      type: row.type,
      data: row.data,
      at: new Date(row.created_at).toISOString(),
    };
    const list = lines.get(topic);
    if (list) list.push(line);
    else lines.set(topic, [line]);
  }
  for (const [topic, list] of lines) topics.publish(topic, list);
};
