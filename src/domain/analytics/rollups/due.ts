import { sql } from "kysely";
import { idFloor, NIL_ID } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { COMMIT_MS } from "./roll-up.ts";

/** A project's rollups move on when so many events are behind the watermark, or after so long, in ms. */
const EVENTS_BEHIND = 5_000;
const BEHIND_MS = 10 * 60_000;

/**
 * Returns projects whose rollups should move on, those first that waited longest. Each question reads the
 * events behind the watermark, so that there should not be many.
 */
export const findDueRollups = async ({ db, serverNow }: Work, limit: number): Promise<string[]> => {
  const nowMs = serverNow.getTime();
  const until = idFloor(nowMs - COMMIT_MS);
  const behind = sql`tracked_events e where e.project_id = p.id
    and e.id > coalesce(r.watermark, ${NIL_ID}::uuid) and e.id < ${until}::uuid`;
  const gains = sql`coalesce(r.gains_watermark, ${NIL_ID}::uuid)`;
  const gained = sql`ledger_entries l where l.project_id = p.id and l.amount > 0 and l.reverses is null
    and l.tx_id is null and l.asset in ('XP', 'CURRENCY') and l.id > ${gains} and l.id < ${until}::uuid`;
  const awarded = sql`badge_awards b where b.project_id = p.id and b.action = 'AWARDED' and b.id > ${gains}
    and b.id < ${until}::uuid`;
  const { rows } = await sql<{ id: string }>`
    select p.id::text as id from projects p left join analytics_rollups r on r.project_id = p.id
    where coalesce(r.halted_at is null, true) and case
      when r.rolled_up_at is null or r.rolled_up_at < ${new Date(nowMs - BEHIND_MS).toISOString()}
        then exists (select from ${behind})
          or exists (select from uncounted_events u where u.project_id = p.id and u.event_id <= r.watermark)
          or exists (select from uncounted_gains u where u.project_id = p.id)
          or exists (select from ${gained}) or exists (select from ${awarded}) or r.gains_watermark is null
      else (select count(*) from (select from ${behind} limit ${EVENTS_BEHIND}) c) = ${EVENTS_BEHIND}
        or (select count(*) from (select from ${gained} limit ${EVENTS_BEHIND}) c) = ${EVENTS_BEHIND} end
    order by r.rolled_up_at nulls first, p.id limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
};
