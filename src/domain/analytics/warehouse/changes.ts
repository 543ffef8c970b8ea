import { type RawBuilder, sql } from "kysely";
import { type IdPage, iso, type Line } from "./part.ts";
import type { Export } from "./progress.ts";
import type { WarehouseChange } from "../../kernel/events/warehouse-changes.ts";
import type { Work } from "../../kernel/work.ts";

/** Records that one statement reads: each has less than 1 KiB. */
const RECORDS_AT_ONCE = 2_000;

/**
 * Reads the records of a page of lines of the ledger that belong to no event, by id; none: it was the last.
 * Lines never change, and their records hold nothing that an erasure takes from them.
 */
export const readLedgerLines = async (
  { db }: Work,
  projectId: string,
  { after, until }: IdPage,
): Promise<Line[]> => {
  const { rows } = await sql<Line>`
    select l.id::text as id, json_build_object('lineId', l.id, 'projectId', l.project_id,
      'playerId', l.player_id, 'seq', l.seq, 'asset', l.asset, 'currency', l.currency_key,
      'amount', l.amount, 'balanceAfter', l.balance_after, 'kind', l.cause->>'kind',
      'ruleKey', l.cause->>'ruleKey', 'refKey', l.cause->>'refKey', 'refId', l.cause->>'refId',
      'reverses', l.reverses, 'at', ${iso("l.created_at")})::text as text
    from ledger_entries l
    where l.project_id = ${projectId}::uuid and l.event_id is null
      and l.id > ${after}::uuid and l.id < ${until}::uuid
    order by l.id limit ${sql.lit(RECORDS_AT_ONCE)}`.execute(db);
  return rows;
};

/**
 * What was paid for a grant: the line of the price has the grant's key, which a merge of players has put its
 * own mark before.
 */
const PRICE = sql`(
  select l.currency_key as currency, -l.amount as amount from ledger_entries l
  where l.project_id = g.project_id
    and l.player_id in (
      select g.player_id union all
      select m.id from players m where m.project_id = g.project_id and m.merged_into = g.player_id)
    and l.idempotency_key = regexp_replace(g.idempotency_key, '^(mrg:[^:]*:)+', '') || ':price'
  limit 1)`;

const readGrants = async ({ db }: Work, projectId: string, where: RawBuilder<unknown>): Promise<Line[]> => {
  const { rows } = await sql<Line>`
    select g.id::text as id, json_build_object('grantId', g.id, 'projectId', g.project_id,
      'playerId', g.player_id, 'rewardKey', g.reward_key, 'quantity', g.quantity, 'status', g.status,
      'priceCurrency', p.currency, 'priceAmount', p.amount, 'kind', g.cause->>'kind',
      'ruleKey', g.cause->>'ruleKey', 'eventId', g.event_id, 'expiresAt', ${iso("g.expires_at")},
      'createdAt', ${iso("g.created_at")}, 'updatedAt', ${iso("g.updated_at")})::text as text
    from reward_grants g left join lateral ${PRICE} p on true
    where g.project_id = ${projectId}::uuid and ${where}
    order by g.id limit ${sql.lit(RECORDS_AT_ONCE)}`.execute(db);
  return rows;
};

/** Reads the records of a page of grants of rewards, by id; none: it was the last. */
export const readRewardLines = (work: Work, projectId: string, { after, until }: IdPage): Promise<Line[]> =>
  readGrants(work, projectId, sql`g.id > ${after}::uuid and g.id < ${until}::uuid`);

/** Reads the records of some grants of rewards, of as many as one page of changes has. */
export const readRewardLinesOf = (work: Work, projectId: string, ids: readonly string[]): Promise<Line[]> =>
  readGrants(work, projectId, sql`g.id = any(${`{${ids.join(",")}}`}::uuid[])`);

/** Changes that one file tells of. */
const CHANGES_AT_ONCE = 2_000;

/**
 * A change to tell of: its number, and its event, merge or grant. `searched`: files up to that number hold
 * nothing of an erased event.
 */
export type Change = { seq: string; ref: string; isErased: boolean; searched: number };

type Row = { seq: number; kind: WarehouseChange; ref: string; searched: number };

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
    searched,
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
