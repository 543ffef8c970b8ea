import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { CausedLine } from "./record.ts";

type Player = { id: string; projectId: string };

/** Returns whether a player's ledger has lines of XP that stand, besides those to be reverted. */
export const readHasOtherXp = async (
  { db }: Work,
  { id: playerId, projectId }: Player,
  { ledger, eventIds }: { ledger: readonly CausedLine[]; eventIds: readonly string[] },
): Promise<boolean> => {
  const ids = ledger.filter(({ asset }) => asset === "XP").map(({ id }) => id);
  const { rows } = await sql`
    select 1 from ledger_entries l
    where l.project_id = ${projectId} and l.player_id = ${playerId} and l.asset = 'XP' and l.reverses is null
      and l.id <> all(${`{${ids.join(",")}}`}::uuid[])
      and (l.event_id is null or l.event_id <> all(${`{${eventIds.join(",")}}`}::uuid[]))
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
    limit 1`.execute(db);
  return rows.length > 0;
};
