import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/** Counts events of which the ledger is still kept, but no longer what they have emitted. */
export const countUnknown = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<number> => {
  if (eventIds.length === 0) return 0;
  const { rows } = await sql<{ n: string | number }>`
    select count(*) as n from unnest(${`{${eventIds.join(",")}}`}::uuid[]) as u(id)
    cross join lateral (
      select 1 from ledger_entries l where l.project_id = ${projectId} and l.event_id = u.id limit 1) l
    left join lateral (
      select 1 as is_known from outbox o
      where o.project_id = ${projectId} and o.event_id = u.id limit 1) o on true
    where o.is_known is null`.execute(db);
  return Number(rows[0]!.n);
};
