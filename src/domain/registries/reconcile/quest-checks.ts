import { sql } from "kysely";
import { type Check, idsOf } from "./finding.ts";

/** The reward of a completion in the keys of its ledger entries, as the latest revert of a row leaves it. */
const COMPLETION = sql`'q:' || q.id || ':complete'
  || case when q.doc ? 'again' then '~' || (q.doc ->> 'again') else '' end || ':'`;

/**
 * I15: a cycle of a quest has the times of its state, and a quest one latest cycle; what completing a cycle
 * gives was given only where it is claimed.
 */
export const checkQuests: Check = async (work, page) => {
  const { rows } = await sql<{ player_id: string; message: string }>`
    with q as materialized (
      select * from player_quests
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[]))
    select q.player_id, format('quest %s, cycle %s: %s at %s percent, completed %s, claimed %s', q.quest_key,
      q.cycle_key, q.state, q.percent, coalesce(q.completed_at::text, 'never'),
      coalesce(q.claimed_at::text, 'never')) as message
    from q
    where (q.state in ('COMPLETED', 'CLAIMED')) and (q.completed_at is null or q.percent <> 100)
      or q.state = 'IN_PROGRESS' and (q.completed_at is not null or q.percent = 100)
      or (q.state = 'CLAIMED') <> (q.claimed_at is not null)
      or q.is_live <> (q.is_latest or q.state = 'COMPLETED')
    union all
    select q.player_id, format('quest %s has %s latest cycles', q.quest_key,
      count(*) filter (where is_latest))
    from q group by q.player_id, q.quest_key having count(*) filter (where is_latest) <> 1
    union all
    select q.player_id, format('quest %s, cycle %s: it is %s, but gave %s', q.quest_key, q.cycle_key, q.state,
      l.idempotency_key)
    from q join ledger_entries l on l.project_id = q.project_id and l.player_id = q.player_id
      and starts_with(l.idempotency_key, ${COMPLETION})
    where q.state <> 'CLAIMED' and l.reverses is null
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)`.execute(work.db);
  return rows.map(({ player_id: playerId, message }) => ({
    invariant: "I15",
    projectId: page.projectId,
    playerId,
    message,
    isRepairable: false,
  }));
};
