import { sql } from "kysely";
import { PARTITIONS } from "./ids.ts";
import { unansweredKept } from "./statements.ts";
import type { Work } from "./work.ts";

/**
 * The rows of `usage_counters` of a tenant and month are told apart by their slot: 0 is locked to give the
 * others room (tracking/grants.ts), those above 0 count events, and those below count players.
 */
export const MAIN_SLOT = 0;

/** Returns the month of a time, such as 202611; months are those of UTC. */
export const monthOf = (time: Date): number => time.getUTCFullYear() * 100 + time.getUTCMonth() + 1;

/** Returns the beginning of the month of a time, or of one `later`, in UTC. */
export const monthStart = (time: Date, later = 0): Date =>
  new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + later));

/** Players of a tenant that became active in a month. */
export type PlayersAdded = { tenantId: string; players: number };

/**
 * Counts active players in the transaction of a claim that holds the partition `part` until it ends. Nobody
 * else ever writes this row, so it may be followed by anything: no transaction waits for it.
 */
export const addPlayers = async (work: Work, part: number, added: readonly PlayersAdded[]): Promise<void> => {
  if (added.length === 0) return;
  const rows = added.map(({ tenantId, players }) => ({ t: tenantId, p: players }));
  await unansweredKept(
    work.db,
    sql`with x as materialized (
        select t, p from json_to_recordset(${JSON.stringify(rows)}::json) as x(t uuid, p bigint)),
      u as (
        insert into usage_counters as u (tenant_id, month, slot, players)
        select t, ${monthOf(work.serverNow)}::int, ${-1 - (part % PARTITIONS)}::smallint, p from x
        on conflict (tenant_id, month, slot) do update set players = u.players + excluded.players)
      insert into usage_changes (tenant_id) select t from x`,
  );
};

/** Has what a tenant uses compared with its plan, within a minute (accounts/billing/usage-notices.ts). */
export const noteUsageChange = async ({ db }: Work, tenantId: string): Promise<void> => {
  await sql`insert into usage_changes (tenant_id) values (${tenantId}::uuid)`.execute(db);
};
