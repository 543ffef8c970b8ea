import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";

type Query = {
  playerIds: readonly string[];
  /** The lines to be reverted, besides those of the events. */
  lineIds: readonly string[];
  eventIds: readonly string[];
};

/** Returns the players whose ledgers have lines of XP that stand, besides those to be reverted. */
export const readHasOtherXp = async (
  { db }: Work,
  projectId: string,
  { playerIds, lineIds, eventIds }: Query,
): Promise<Set<string>> => {
  if (playerIds.length === 0) return new Set();
  const { rows } = await sql<{ id: string }>`
    select u.id from unnest(${`{${playerIds.join(",")}}`}::uuid[]) as u(id) cross join lateral (
      select 1 from ledger_entries l
      where l.project_id = ${projectId} and l.player_id = u.id and l.asset = 'XP' and l.reverses is null
        and l.id <> all(${`{${lineIds.join(",")}}`}::uuid[])
        and (l.event_id is null or l.event_id <> all(${`{${eventIds.join(",")}}`}::uuid[]))
        and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
          and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
      limit 1) l`.execute(db);
  return new Set(rows.map(({ id }) => id));
};
