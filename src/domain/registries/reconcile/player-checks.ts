import { type RawBuilder, sql } from "kysely";
import type { EntryChange } from "../../kernel/events/events.ts";
import { getCurve } from "../../progression/level-curves.ts";
import { levelOf } from "../../evaluation/xp/levels.ts";
import { keptSince } from "../retention.ts";
import { type Check, type Finding, idsOf, type Page } from "./finding.ts";
import type { Work } from "../../kernel/work.ts";

type Row = { player_id: string; message: string };

const findingsOf = (
  invariant: string,
  { projectId }: Page,
  rows: readonly Row[],
  isRepairable = false,
): Finding[] =>
  rows.map(({ player_id, message }) => ({
    invariant,
    projectId,
    playerId: player_id,
    message,
    isRepairable,
  }));

/** I8: a level matches the curve for the XP; it is higher only where levels do not fall. */
export const checkLevels: Check = async (work, page, repair) => {
  const curve = await getCurve(work, page.projectId);
  const settings = await sql<{ may_fall: boolean }>`
    select coalesce((settings ->> 'allowLevelDown')::boolean, false) as may_fall
    from projects where id = ${page.projectId}`.execute(work.db);
  const mayFall = settings.rows[0]?.may_fall ?? false;
  const players = await sql<{ id: string; xp: string | number; level: number }>`
    select id, xp, level from players
    where project_id = ${page.projectId} and id = any(${idsOf(page)}::uuid[])
      and status <> 'MERGED'`.execute(work.db);
  const wrong = players.rows
    .map(({ id, xp, level }) => ({ id, xp: Number(xp), level, should: levelOf(curve, Number(xp)) }))
    .filter(({ level, should }) => level < should || (mayFall && level > should));
  if (repair && wrong.length > 0)
    await sql`
      update players t set level = x.should
      from json_to_recordset(${JSON.stringify(wrong)}::json) as x(id uuid, should int)
      where t.project_id = ${page.projectId} and t.id = x.id`.execute(work.db);
  const rows = wrong.map(({ id, xp, level, should }) => ({
    player_id: id,
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
    select p.id as player_id, format('the stream has %s lines, from %s to %s; the player''s seq is %s',
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
    select x.player_id, format('rule %s has fired %s times for event %s', x.rule_id, count(*), x.event_id)
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
  const wrong = await sql<Row & { period_id: string }>`
    select e.player_id, e.period_id, format('%s: the entry stands at %s, the player has %s XP',
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
      return [row.player_id, Number(row.rank_score), Number(row.rank_tie), row.version];
    });
    emit(page.projectId, "leaderboard.entries_changed", { periodId, entries });
  }
};

type EntryRow = {
  period_id: string;
  player_id: string;
  rank_score: string | number;
  rank_tie: string | number;
  version: number;
};
