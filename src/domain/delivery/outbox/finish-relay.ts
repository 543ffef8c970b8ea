import { sql } from "kysely";
import type { EventType } from "../../kernel/events/domain-events.ts";
import type { Happened } from "../webhooks/body.ts";
import { isWebhookType } from "../webhooks/catalogue/event-types.ts";
import { maySendAs, sentAs } from "../webhooks/sent-as.ts";
import { type PlannedEvent, planWebhooks } from "../webhooks/plan.ts";
import type { Work } from "../../kernel/work.ts";
import { kept } from "../../kernel/statements.ts";
import type { OutboxRow, TakenCommit } from "./read-queue.ts";

/** Projects with events that webhooks may subscribe to. */
export const projectsOfWebhooks = (rows: readonly OutboxRow[]): Set<string> =>
  new Set(rows.filter(({ type }) => isWebhookType(maySendAs(type))).map(({ project_id }) => project_id));

/** Returns the event that webhooks receive of a row. */
export const happened = (row: OutboxRow): Happened => ({
  id: row.id,
  projectId: row.project_id,
  playerId: row.player_id,
  createdAt: new Date(row.created_at),
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
export const isAnyQueued = async ({ db }: Work, queued: readonly TakenCommit[]): Promise<boolean> => {
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
    s: Number(seq),
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
