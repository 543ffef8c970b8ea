import { sql } from "kysely";
import { idFloor } from "../../kernel/ids.ts";
import type { WarehouseChange } from "../../kernel/events/warehouse-changes.ts";
import type { Work } from "../../kernel/work.ts";
import type { Export } from "./progress.ts";

/** Changes that one file tells of. */
const CHANGES_AT_ONCE = 2_000;

/**
 * Up to where files of events may come: to what nobody commits any more, and what waits for no worker. What
 * waits for its time is told of as waiting, and once more when it waits no longer.
 */
export const readExportLimit = async (
  { db, serverNow }: Work,
  projectId: string,
  lagMs: number,
): Promise<string> => {
  const { rows } = await sql<{ id: string }>`
    select event_id::text as id from event_q where project_id = ${projectId}::uuid
    order by event_id limit 1`.execute(db);
  const limit = idFloor(serverNow.getTime() - lagMs);
  const waiting = rows[0]?.id;
  return waiting !== undefined && waiting < limit ? waiting : limit;
};

/**
 * A change to tell of: its number, and its event, merge or grant. `searched`: files up to that number hold
 * nothing of an erased event.
 */
export type Change = { seq: string; ref: string; isErased: boolean; searched: number };

type Row = { seq: string | number; kind: WarehouseChange; ref: string; searched: string | number };

const NONE_WAITS = sql`
  not exists (select from event_q q where q.project_id = c.project_id and q.event_id = c.ref)
  and not exists (select from event_due d where d.project_id = c.project_id and d.event_id = c.ref)`;

/** What changed is told of once a file has what it was before. */
const DUE = {
  events: ({ cursors }: Export) => sql`
    c.kind in ('CHANGED', 'ERASED') and c.ref <= ${cursors.events}::uuid
    and (c.kind = 'ERASED' or ${NONE_WAITS})`,
  merges: () => sql`c.kind = 'MERGED'`,
  rewards: ({ cursors }: Export) => sql`c.kind = 'REWARD' and c.ref <= ${cursors.rewards}::uuid`,
} as const;

/**
 * Reads what has changed of events that a file has already, except those that wait for a worker again, unless
 * they were erased; which players were merged; or what has changed of grants of rewards. All of a page were
 * searched for in the same files.
 */
export const readChanges = async (
  { db }: Work,
  export_: Export,
  what: keyof typeof DUE,
): Promise<Change[]> => {
  const { rows } = await sql<Row>`
    select c.seq, c.kind, c.ref::text, c.searched from warehouse_changes c
    where c.project_id = ${export_.projectId}::uuid and ${DUE[what](export_)}
    order by c.seq limit ${sql.lit(CHANGES_AT_ONCE)}`.execute(db);
  const changes = rows.map(({ seq, kind, ref, searched }): Change => ({
    seq: String(seq),
    ref,
    isErased: kind === "ERASED",
    searched: Number(searched),
  }));
  const end = changes.findIndex(({ searched }) => searched !== changes[0]!.searched);
  return end === -1 ? changes : changes.slice(0, end);
};

/** Notes up to which file all were searched for what changes say is erased. */
export const noteSearched = async (
  { db }: Work,
  projectId: string,
  { changes, upTo }: { changes: readonly Change[]; upTo: number },
): Promise<void> => {
  await sql`
    update warehouse_changes set searched = ${upTo}::bigint
    where project_id = ${projectId}::uuid
      and seq = any(${`{${changes.map(({ seq }) => seq).join(",")}}`}::bigint[])`.execute(db);
};

/** Returns the events, merges or grants of changes, each once and in order. */
export const refsOf = (changes: readonly Change[]): string[] =>
  [...new Set(changes.map(({ ref }) => ref))].toSorted();
