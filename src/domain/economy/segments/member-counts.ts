import { sql } from "kysely";
import { TOTAL_EXACT_MAX } from "../../kernel/counting.ts";
import type { Work } from "../../kernel/work.ts";

/** Number of members by segment key: counted up to TOTAL_EXACT_MAX. */
export const countMembers = async (
  { db }: Work,
  projectId: string,
  keys: readonly string[],
): Promise<Map<string, number>> => {
  const counted = await sql<{ key: string; n: string | number }>`
    select x.key, c.n from json_array_elements_text(${JSON.stringify(keys)}::json) as x(key)
    cross join lateral (select count(*) as n from (
      select 1 from player_segments s where s.project_id = ${projectId} and s.segment_key = x.key
      limit ${TOTAL_EXACT_MAX}) m) c`.execute(db);
  return new Map(counted.rows.map(({ key, n }) => [key, Number(n)]));
};
