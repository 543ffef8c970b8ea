import { sql } from "kysely";
import { type Check, idsOf } from "./finding.ts";

/** What the keys of an adventure's ledger entries begin with. */
const REWARDS = sql`'adv:' || a.id || ':'`;
/** What they end with before the name of a part, as the latest revert of a row leaves it. */
const AGAIN = sql`case when a.doc ? 'again' then '~' || (a.doc ->> 'again') else '' end || ':'`;

/**
 * I16: a player's adventure has the times of its state, no item more often than its quest was completed, and
 * the tiers of its points; what a tier and the whole give was given only where it is claimed.
 */
export const checkAdventures: Check = async (work, page) => {
  const { rows } = await sql<{ player_id: string; message: string }>`
    with a as materialized (
      select * from player_adventures
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[])),
    tier as materialized (
      select a.*, t.tier, t.points as needs, a.doc -> 'tiers' -> t.tier::text as reached
      from a join definitions d on d.project_id = a.project_id and d.kind = 'adventure'
        and d.key = a.adventure_key
      cross join lateral jsonb_to_recordset(d.definition -> 'tiers') as t(tier int, points bigint)
      where a.started_at is not null
        and not exists (select 1 from definition_versions v where v.project_id = d.project_id
          and v.definition_id = d.id and v.version <> d.version))
    select player_id, format('adventure %s: %s with %s points, started %s, completed %s, claimed %s',
      adventure_key, state, points, coalesce(started_at::text, 'never'),
      coalesce(completed_at::text, 'never'), coalesce(claimed_at::text, 'never')) as message
    from a
    where state in ('IN_PROGRESS', 'COMPLETED', 'CLAIMED') and started_at is null
      or state = 'WAITING' and (started_at is not null or points <> 0)
      or state in ('COMPLETED', 'CLAIMED') and completed_at is null
      or state = 'IN_PROGRESS' and completed_at is not null
      or (state = 'CLAIMED') <> (claimed_at is not null)
      or points < 0
    union all
    select a.player_id, format('adventure %s: %s times quest %s, which was completed %s times',
      a.adventure_key, i.value ->> 'times', i.key, coalesce(q.completions, 0))
    from a cross join lateral jsonb_each(a.doc -> 'items') as i
    left join player_quests q on q.project_id = a.project_id and q.player_id = a.player_id
      and q.quest_key = i.key and q.is_latest
    where (i.value ->> 'times')::int > coalesce(q.completions, 0)
    union all
    select player_id, format('adventure %s: tier %s of %s points is %s with %s', adventure_key, tier, needs,
      case when reached is null then 'not reached' else 'reached' end, points)
    from tier
    where floor(points) >= needs and reached is null
      or floor(points) < needs and reached is not null and not reached ?| array['freeMs', 'premiumMs']
    union all
    select a.player_id, format('adventure %s: it is %s, but gave %s', a.adventure_key, a.state,
      l.idempotency_key)
    from a join ledger_entries l on l.project_id = a.project_id and l.player_id = a.player_id
      and starts_with(l.idempotency_key, ${REWARDS})
    where l.reverses is null
      and (a.state <> 'CLAIMED' and starts_with(l.idempotency_key, ${REWARDS} || 'complete' || ${AGAIN})
        or exists (
          select 1 from (values ('FREE', 'freeMs'), ('PREMIUM', 'premiumMs')) as k(track, mark)
          where starts_with(l.idempotency_key, ${REWARDS} || 't:')
            and starts_with(l.idempotency_key, ${REWARDS} || 't:' || split_part(l.idempotency_key, ':', 4)
              || ':' || k.track || ${AGAIN})
            and a.doc -> 'tiers' -> split_part(l.idempotency_key, ':', 4) -> k.mark is null))
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)`.execute(work.db);
  return rows.map(({ player_id: playerId, message }) => ({
    invariant: "I16",
    projectId: page.projectId,
    playerId,
    message,
    isRepairable: false,
  }));
};
