import { sql } from "kysely";
import type { EntryChange, EventType, Events, Json } from "../events.ts";
import type { RankStore } from "../leaderboards/ranks.ts";
import { periodTopic, type PlayerMessage, playerTopic, type Topics } from "../topics.ts";
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
 * topics, then the queue rows away. A crash in between sends them again: the index keeps versions and
 * players' rooms keep sequence numbers, so twice is once.
 * @returns how many outbox rows went out, and whether more commits may wait
 */
export const relayPartition = async (
  { transact, ranks, topics }: RelayParts,
  part: number,
): Promise<{ rows: number; isMore: boolean }> => {
  const { queued, rows } = await transact((work) => readNext(work, part));
  if (queued.length === 0) return { rows: 0, isMore: false };
  await applyRanks({ ranks, topics }, rows);
  publishToPlayers(topics, rows);
  await transact((work) => deleteRelayed(work, part, queued));
  return { rows: rows.length, isMore: queued.length === RELAY_COMMITS };
};

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

const deleteRelayed = async ({ db }: Work, part: number, queued: readonly QueueRow[]): Promise<void> => {
  const keys = queued.map(({ project_id, seq }) => ({ p: project_id, s: Number(seq) }));
  await sql`
    delete from outbox_q t using json_to_recordset(${JSON.stringify(keys)}::json) as x(p uuid, s bigint)
    where t.project_id = x.p and t.part = ${part} and t.seq = x.s`.execute(db);
};

type Period = { projectId: string; periodId: string; entries: Map<string, EntryChange> };

const applyRanks = async (
  { ranks, topics }: Pick<RelayParts, "ranks" | "topics">,
  rows: readonly OutboxRow[],
): Promise<void> => {
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
  for (const { projectId, periodId, entries } of periods.values()) {
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
