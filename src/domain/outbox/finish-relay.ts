import { sql } from "kysely";
import type { EventType } from "../domain-events.ts";
import type { Json } from "../events.ts";
import type { Happened } from "../webhooks/body.ts";
import { isWebhookType } from "../webhooks/catalogue/event-types.ts";
import { planWebhooks } from "../webhooks/plan.ts";
import type { Subscribers } from "../webhooks/subscribers.ts";
import { KEPT, type Work } from "../work.ts";

/** What announces the outbox rows of a commit to the relay. */
export type QueueRow = { project_id: string; part: number; seq: string | number; outbox_ids: string[] };
export type OutboxRow = {
  id: string;
  project_id: string;
  type: EventType;
  player_id: string | null;
  player_seq: string | number | null;
  data: Json;
  created_at: Date | string;
};

/** Projects with events that webhooks may want. */
export const projectsOfWebhooks = (rows: readonly OutboxRow[]): Set<string> =>
  new Set(rows.filter(({ type }) => isWebhookType(type)).map(({ project_id }) => project_id));

const happened = (row: OutboxRow): Happened => ({
  id: row.id,
  projectId: row.project_id,
  type: row.type,
  playerId: row.player_id,
  data: row.data,
  createdAt: new Date(row.created_at),
});

/**
 * Ends a round: its commits leave the queue, and what webhooks want of them is planned in the same commit.
 * Another relay may have sent them too; whose delete finds a commit in the queue, plans it, so that it is
 * planned once, and after those before it.
 */
export const finishRelay = async (
  work: Work,
  queued: readonly QueueRow[],
  { rows, subscribers }: { rows: readonly OutboxRow[]; subscribers: readonly Subscribers[] },
): Promise<void> => {
  const ours = await deleteRelayed(work, queued, rows);
  if (subscribers.length === 0) return;
  await planWebhooks(work, subscribers, rows.filter(({ id }) => ours.has(id)).map(happened));
};

/**
 * Types whose rows nobody asks for again once they are relayed. Texts of chat are kept in its own tables, and
 * go from there.
 */
const TOLD_ONCE: ReadonlySet<string> = new Set<EventType>([
  "leaderboard.entries_changed",
  "leaderboard.changed",
  "chat.changed",
  "player.notice",
]);

/**
 * Lets the queue rows go, and with them what has been of use: one statement.
 * @returns the outbox rows whose commits were still queued
 */
const deleteRelayed = async (
  { db }: Work,
  queued: readonly QueueRow[],
  rows: readonly OutboxRow[],
): Promise<Set<string>> => {
  const ids = new Set(queued.flatMap(({ outbox_ids: of }) => of));
  const keys = queued.map(({ project_id, part, seq }) => ({ p: project_id, h: part, s: Number(seq) }));
  const told = rows
    .filter(({ type, id }) => TOLD_ONCE.has(type) && ids.has(id))
    .map(({ project_id, id }) => ({ p: project_id, i: id }));
  const gone = await sql<{ outbox_ids: string[] }>`
    ${sql.raw(KEPT)} with told as (
      delete from outbox o using json_to_recordset(${JSON.stringify(told)}::json) as x(p uuid, i uuid)
      where o.project_id = x.p and o.id = x.i)
    delete from outbox_q t using json_to_recordset(${JSON.stringify(keys)}::json)
      as x(p uuid, h smallint, s bigint)
    where t.project_id = x.p and t.part = x.h and t.seq = x.s
    returning t.outbox_ids`.execute(db);
  return new Set(gone.rows.flatMap(({ outbox_ids: of }) => of));
};
