import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { type LimitedKind, limitedKey } from "../../evaluation/rewards/shared-keys.ts";

const GIVEN = {
  badge: sql`select sum(times_awarded) as n from player_badges`,
  reward: sql`select sum(quantity) as n from reward_grants`,
  quest: sql`select count(distinct player_id) as n from player_quests`,
} as const;

/**
 * Initializes the counter of a definition that gets a limit with the number granted so far. The project's
 * configuration is locked, so nothing is granted meanwhile.
 */
export const startCounting = async (
  { db }: Work,
  { projectId, kind, key }: { projectId: string; kind: LimitedKind; key: string },
): Promise<void> => {
  const { scope, windowNo } = limitedKey(projectId, kind, key);
  const column = sql.ref(`${kind}_key`);
  await sql`
    insert into shared_counters as c (project_id, scope, window_no, used)
    select ${projectId}::uuid, ${scope}, ${windowNo}::bigint, coalesce(n, 0)
    from (${GIVEN[kind]} where project_id = ${projectId} and ${column} = ${key}) as given
    on conflict (project_id, scope, window_no) do update set used = greatest(c.used, excluded.used)`.execute(
    db,
  );
};
