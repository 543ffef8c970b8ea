import { type RawBuilder, sql } from "kysely";
import { levelOf } from "../../evaluation/xp/levels.ts";
import type { EntryChange } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";
import { getCurve } from "../../progression/level-curves.ts";
import { type Check, findingsOf, idsOf, type Page } from "./finding.ts";
import { keptSince } from "../retention.ts";

type Row = { playerId: string; message: string };

/** What the keys of an adventure's ledger entries begin with. */
const REWARDS = sql`'adv:' || a.id || ':'`;
/** What they end with before the name of a part, as the latest revert of a row leaves it. */
const AGAIN = sql`case when a.doc ? 'again' then '~' || (a.doc ->> 'again') else '' end || ':'`;

/**
 * I16: a player's adventure has the times of its state, no item more often than its quest was completed, and
 * the tiers of its points; what a tier and the whole give was given only where it is claimed.
 */
export const checkAdventures: Check = async (work, page) => {
  const { rows } = await sql<Row>`
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
    select player_id as "playerId", format('adventure %s: %s with %s points, started %s, completed %s, claimed %s',
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
  return findingsOf("I16", page, rows);
};

/**
 * I13: a place of a closed list has the score of the player's entry, while entries are kept. A merged player
 * may have two places, of which one entry is left.
 */
export const checkResults: Check = async (work, page) => {
  const { rows } = await sql<Row>`
    select r.player_id as "playerId", format('%s of %s: the result is %s, the entry %s', l.key, p.period_key, r.rank_score,
      e.rank_score) as message
    from leaderboard_results r
    join leaderboard_periods p on p.project_id = r.project_id and p.id = r.period_id and p.status = 'CLOSED'
    join leaderboards l on l.project_id = p.project_id and l.id = p.leaderboard_id
    join leaderboard_entries e on e.project_id = r.project_id and e.period_id = r.period_id
      and e.player_id = r.player_id
    where r.project_id = ${page.projectId} and r.player_id = any(${idsOf(page)}::uuid[])
      and (e.rank_score, e.rank_tie) <> (r.rank_score, r.rank_tie)
      and not exists (
        select 1 from leaderboard_results o
        where o.project_id = r.project_id and o.player_id = r.player_id and o.period_id = r.period_id
          and o.position <> r.position)`.execute(work.db);
  return findingsOf("I13", page, rows);
};

/** I8: a level matches the curve for the XP; it is higher only where levels do not fall. */
export const checkLevels: Check = async (work, page, repair) => {
  const curve = await getCurve(work, page.projectId);
  const settings = await sql<{ may_fall: boolean }>`
    select coalesce((settings ->> 'allowLevelDown')::boolean, false) as may_fall
    from projects where id = ${page.projectId}`.execute(work.db);
  const mayFall = settings.rows[0]?.may_fall ?? false;
  const players = await sql<{ id: string; xp: number; level: number }>`
    select id, xp, level from players
    where project_id = ${page.projectId} and id = any(${idsOf(page)}::uuid[])
      and status <> 'MERGED'`.execute(work.db);
  const wrong = players.rows
    .map(({ id, xp, level }) => ({ id, xp, level, should: levelOf(curve, xp) }))
    .filter(({ level, should }) => level < should || (mayFall && level > should));
  if (repair && wrong.length > 0)
    await sql`
      update players t set level = x.should
      from json_to_recordset(${JSON.stringify(wrong)}::json) as x(id uuid, should int)
      where t.project_id = ${page.projectId} and t.id = x.id`.execute(work.db);
  const rows = wrong.map(({ id, xp, level, should }) => ({
    playerId: id,
    message: `the level is ${level}, the curve says ${should} for ${xp} XP`,
  }));
  return findingsOf("I8", page, rows, true);
};

/**
 * I12: the lines of a player's stream are numbered 1 to the player's seq without a gap, except for the oldest
 * ones, which retention has removed: of a player from before what is kept perhaps all.
 */
export const checkStream: Check = async (work, page) => {
  const since = (await keptSince(work, "activityDays", page.projectId)).toISOString();
  const { rows } = await sql<Row>`
    select p.id as "playerId", format('the stream has %s lines, from %s to %s; the player''s seq is %s',
      coalesce(o.n, 0), coalesce(o.first, 0), coalesce(o.last, 0), p.seq) as message
    from players p left join (
      select player_id, sum(coalesce(lines, 1)) as n, min(player_seq - coalesce(lines, 1) + 1) as first,
        max(player_seq) as last
      from outbox
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[])
        and player_seq is not null group by player_id) o on o.player_id = p.id
    where p.project_id = ${page.projectId} and p.id = any(${idsOf(page)}::uuid[])
      and (p.seq <> coalesce(o.last, 0) or coalesce(o.n, 0) <> coalesce(o.last - o.first + 1, 0))
      and (o.n is not null or p.created_at >= ${since}::timestamptz)`.execute(work.db);
  return findingsOf("I12", page, rows);
};

/** I6: waiting events have had no effect, and a rule has fired for an event no more often than allowed. */
export const checkExecutions: Check = async (work, page) => {
  const { rows } = await sql<Row>`
    select x.player_id as "playerId", format('rule %s has fired %s times for event %s', x.rule_id, count(*), x.event_id)
      as message
    from rule_executions x join rules r on r.id = x.rule_id
    where x.project_id = ${page.projectId} and x.player_id = any(${idsOf(page)}::uuid[])
      and x.mode = 'LIVE'
    group by x.player_id, x.rule_id, x.event_id, r.draft
    having count(*) > ${REENTRANT_MAX}
    union all
    select x.player_id, format('event %s waits, but rule %s has fired for it', x.event_id, x.rule_id)
    from rule_executions x join event_q q on q.project_id = x.project_id and q.event_id = x.event_id
    where x.project_id = ${page.projectId} and x.player_id = any(${idsOf(page)}::uuid[])`.execute(work.db);
  return findingsOf("I6", page, rows);
};

/** Maximum firings of one rule for one event and player, reentrant or not. */
const REENTRANT_MAX = 10;

/** I9: an entry of an active XP board equals the player's XP. */
export const checkXpBoards: Check = async (work, page, repair) => {
  const wrong = await sql<Row>`
    select e.player_id as "playerId", format('%s: the entry stands at %s, the player has %s XP',
      b.key, abs(e.rank_score), p.xp) as message
    ${xpEntries(page)}`.execute(work.db);
  if (repair && wrong.rows.length > 0) await repairXpEntries(work, page);
  return findingsOf("I9", page, wrong.rows, true);
};

const xpEntries = (page: Page): RawBuilder<unknown> => sql`
  from leaderboards b
  join leaderboard_entries e on e.project_id = b.project_id and e.period_id = b.period_id
  join players p on p.project_id = e.project_id and p.id = e.player_id
  where b.project_id = ${page.projectId} and b.status = 'ACTIVE'
    and b.definition -> 'metric' ->> 'source' = 'XP'
    and e.player_id = any(${idsOf(page)}::uuid[]) and abs(e.rank_score) <> p.xp`;

const repairXpEntries = async ({ db, now, emit }: Work, page: Page): Promise<void> => {
  const repaired = await sql<EntryRow>`
    update leaderboard_entries t set version = t.version + 1, updated_at = ${now.toISOString()}::timestamptz,
      rank_score = x.score
    from (select e.period_id, e.player_id,
        case when b.definition ->> 'sort' = 'ASC' then p.xp else -p.xp end as score
      ${xpEntries(page)}) x
    where t.project_id = ${page.projectId} and t.period_id = x.period_id
      and t.player_id = x.player_id
    returning t.period_id, t.player_id, t.rank_score, t.rank_tie, t.version`.execute(db);
  // The rank index is updated as for any other change.
  for (const [periodId, rows] of Map.groupBy(repaired.rows, (row) => row.period_id)) {
    const entries = rows.map((row): EntryChange => {
      return [row.player_id, row.rank_score, row.rank_tie, row.version];
    });
    emit(page.projectId, "leaderboard.entries_changed", { periodId, entries });
  }
};

type EntryRow = {
  period_id: string;
  player_id: string;
  rank_score: number;
  rank_tie: number;
  version: number;
};
