import type { Pool } from "./box.ts";

/** Returns SQL of an id of the time of event `e`, the same for the same event and number. */
const idOf = (number: number): string =>
  `(substr(e.id::text, 1, 14) || '7${number}' || substr(e.id::text, 17, 3) || substr(md5(e.id::text), 1, 4)
    || '-' || substr(md5(e.id || '${number}'), 1, 12))::uuid`;

const LINES = `
  select e.id as event_id, e.external_user_id, e.occurred_at, 1 as no, 'XP' as asset, null as currency,
    case e.event_type when 'match.won' then 25 else 10 end as amount
  from tracked_events e where e.project_id = $1 and e.event_type in ('match.played', 'match.won', 'quiz.done')
  union all
  select e.id, e.external_user_id, e.occurred_at, 2, 'CURRENCY', 'coins', 3
  from tracked_events e where e.project_id = $1 and e.event_type in ('match.won', 'session.started')`;

/**
 * Stores what rules would have given for the events of a history: XP for matches and quizzes, coins for wins
 * and sessions, a badge for tutorials, and level-ups. Returns how many lines, awards and level-ups there are.
 */
export const fillGains = async (pool: Pool, projectId: string): Promise<number> => {
  await pool.query(
    `insert into ledger_entries (project_id, player_id, seq, id, asset, currency_key, amount, balance_after,
       reason, idempotency_key, cause, event_id, hash, created_at)
     select $1::uuid, p.id, row_number() over (partition by p.id order by e.event_id, e.no),
       (substr(e.event_id::text, 1, 15) || e.no || substr(e.event_id::text, 17, 8)
         || substr(md5(e.event_id::text || e.no), 1, 12))::uuid,
       e.asset, e.currency, e.amount, 1, '', 'evt:' || e.event_id || ':rule:' || e.no,
       '{"kind":"RULE","ruleKey":"pay"}', e.event_id, md5(e.event_id::text), e.occurred_at
     from (${LINES}) e
     join players p on p.project_id = $1 and p.external_user_id = e.external_user_id order by 4`,
    [projectId],
  );
  await pool.query(
    `insert into badge_awards (project_id, player_id, id, badge_key, tier, action, idempotency_key, cause,
       event_id, created_at)
     select $1::uuid, p.id, ${idOf(3)}, 'tutorial', 1, 'AWARDED', e.id::text, '{"kind":"RULE"}', e.id,
       e.occurred_at
     from tracked_events e join players p on p.project_id = $1 and p.external_user_id = e.external_user_id
     where e.project_id = $1 and e.event_type = 'tutorial.done' order by 3`,
    [projectId],
  );
  await pool.query(
    `insert into outbox (project_id, id, type, player_id, event_id, data, created_at)
     select $1::uuid, ${idOf(4)}, 'player.level_up', p.id, e.id, '{}', e.occurred_at
     from tracked_events e join players p on p.project_id = $1 and p.external_user_id = e.external_user_id
     where e.project_id = $1 and e.event_type = 'friend.invited' order by 2`,
    [projectId],
  );
  await pool.query("analyze ledger_entries, badge_awards, outbox");
  const { rows } = await pool.query(
    `select (select count(*) from ledger_entries where project_id = $1)
       + (select count(*) from badge_awards where project_id = $1)
       + (select count(*) from outbox where project_id = $1 and type = 'player.level_up') as n`,
    [projectId],
  );
  return Number(rows[0]!["n"]);
};
