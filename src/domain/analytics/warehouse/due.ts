import { sql } from "kysely";
import { idFloor, timeOfId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { TRIED_AGAIN_MS } from "./rewrite.ts";

/** A project with nothing to write says at least so often that it has come so far, in ms. */
const IDLE_MS = 6 * 3_600_000;

const at = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`;

/**
 * Returns projects with something to write, those first that waited longest. None is looked at more often
 * than every `everyMs`, so that files do not become too small, except those that are behind.
 */
export const findDueExports = async (
  { db, serverNow }: Work,
  { everyMs, lagMs, limit }: { everyMs: number; lagMs: number; limit: number },
): Promise<string[]> => {
  const now = serverNow.getTime();
  const upTo = sql`${idFloor(now - lagMs)}::uuid`;
  const { rows } = await sql<{ id: string }>`
    select w.project_id::text as id from warehouse_projects w
    where w.registered_at <= ${at(now - lagMs)} and not w.is_forgotten
      and coalesce(w.leased_until <= ${at(now)}, true)
      and coalesce(w.retry_at <= ${at(now)}, true)
      and exists (select from projects p where p.id = w.project_id and p.deleted_at is null)
      and (w.is_behind or w.published < w.seq or w.writing is not null or w.failures > 0
        or w.moved_at <= ${at(now - IDLE_MS)}
        or exists (select from warehouse_parts l where l.project_id = w.project_id
          and l.tried_at <= ${at(now - TRIED_AGAIN_MS)})
        or w.moved_at <= ${at(now - everyMs)} and (
          exists (select from tracked_events e where e.project_id = w.project_id and e.id > w.cursor
            and e.id < ${upTo})
          or exists (select from ledger_entries l where l.project_id = w.project_id
            and l.id > w.ledger_cursor and l.id < ${upTo} and l.event_id is null)
          or exists (select from reward_grants g where g.project_id = w.project_id
            and g.id > w.rewards_cursor and g.id < ${upTo})
          or exists (select from warehouse_changes c where c.project_id = w.project_id)))
    order by w.moved_at, w.project_id limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
};

/** Reads for how long the oldest event of any project has waited to be in a file, in seconds. */
export const readWarehouseLag = async ({ db, serverNow }: Work): Promise<number> => {
  const { rows } = await sql<{ id: string | null }>`
    select (select n.id from warehouse_projects w cross join lateral (
      select e.id from tracked_events e where e.project_id = w.project_id and e.id > w.cursor
      order by e.id limit 1) n order by n.id limit 1)::text as id`.execute(db);
  const id = rows[0]?.id;
  return id == null ? 0 : Math.max(0, (serverNow.getTime() - timeOfId(id)) / 1_000);
};
