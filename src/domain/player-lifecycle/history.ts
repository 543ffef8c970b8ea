import { sql } from "kysely";
import { invalid } from "../kernel/errors.ts";
import { levelOf } from "../evaluation/xp/levels.ts";
import { projectPlans, readPlan } from "../progression/plan.ts";
import type { Work } from "../kernel/work.ts";
import type { Player } from "../players/player.ts";

/** A player's state at a moment, as it was recorded then. */
export type PointInTimeState = {
  playerId: string;
  at: string;
  xp: number;
  level: number;
  currencies: Record<string, number>;
  badges: { badgeKey: string; tier: number }[];
  streaks: { streakKey: string; current: number }[];
  quests: { questKey: string; cycleKey: string; state: string }[];
  /** Which parts of this are uncertain, and why. */
  caveats: string[];
};

const ALWAYS = [
  "level is that of today's level curve; a curve that was changed since may have said otherwise",
  "currencies and XP go by when they were recorded, which for late events is after their time",
  "initial balances count from the first change of a currency on",
  "of a quest that was started again in its cycle, only the last start is known",
];

/**
 * Returns a player's state at a moment, from the ledger, the badge log and the player stream.
 * @throws DomainError VALIDATION_ERROR for a moment before the player was known, or in the future
 */
export const readStateAt = async (work: Work, player: Player, at: Date): Promise<PointInTimeState> => {
  if (at.getTime() < player.createdAt.getTime()) throw invalid("at", "is before the player was known");
  if (at.getTime() > work.now.getTime()) throw invalid("at", "is in the future");
  const plan = await readPlan(work, player.projectId, projectPlans);
  const balances = await readBalances(work, player, at);
  const streaks = await readStreaks(work, player, at);
  const xp = balances.get("")?.last ?? 0;
  const highest = balances.get("")?.highest ?? 0;
  const currencies = [...balances].filter(([key]) => key !== "").map(([key, { last }]) => [key, last]);
  return {
    playerId: player.id,
    at: at.toISOString(),
    xp,
    // A loss of XP lowers no level where the project does not allow it.
    level: levelOf(plan.curve, plan.settings.allowLevelDown ? xp : highest),
    currencies: Object.fromEntries(currencies) as Record<string, number>,
    badges: await readBadges(work, player, at),
    streaks: streaks.known,
    quests: await readQuests(work, player, at),
    caveats: [...ALWAYS, ...streaks.caveats],
  };
};

type Balance = { last: number; highest: number };

/** By key of the currency; XP has the empty key. */
const readBalances = async (
  { db }: Work,
  { projectId, id }: Player,
  at: Date,
): Promise<Map<string, Balance>> => {
  const found = await sql<{ key: string; last: string | number; highest: string | number }>`
    select coalesce(currency_key, '') as key, max(balance_after) as highest,
      (array_agg(balance_after order by seq desc))[1] as last
    from ledger_entries
    where project_id = ${projectId} and player_id = ${id} and asset in ('XP', 'CURRENCY')
      and created_at <= ${at.toISOString()}::timestamptz
    group by 1`.execute(db);
  return new Map(
    found.rows.map(({ key, last, highest }) => [key, { last: Number(last), highest: Number(highest) }]),
  );
};

/** The highest tier since a badge was last revoked. */
const readBadges = async (
  { db }: Work,
  { projectId, id }: Player,
  at: Date,
): Promise<PointInTimeState["badges"]> => {
  const found = await sql<{ badge_key: string; tier: number }>`
    with log as (
      select badge_key, tier, action, id, max(case when action = 'REVOKED' then id::text end)
        over (partition by badge_key) as revoked
      from badge_awards where project_id = ${projectId} and player_id = ${id}
        and created_at <= ${at.toISOString()}::timestamptz)
    select badge_key, max(tier) as tier from log
    where action = 'AWARDED' and (revoked is null or id::text > revoked)
    group by badge_key order by badge_key`.execute(db);
  return found.rows.map((row) => ({ badgeKey: row.badge_key, tier: row.tier }));
};

type StreakRow = { key: string; type: string; current: number | null };

/** Returns the last recorded state of each streak in the player stream. Pruned lines are gaps. */
const readStreaks = async (
  { db }: Work,
  { projectId, id, seq }: Player,
  at: Date,
): Promise<{ known: PointInTimeState["streaks"]; caveats: string[] }> => {
  const found = await sql<StreakRow>`
    select distinct on (data->>'streakKey') data->>'streakKey' as key, type,
      (data->>'current')::int as current
    from outbox
    where project_id = ${projectId} and player_id = ${id} and player_seq is not null
      and type in ('player.streak_extended', 'player.streak_frozen', 'player.streak_broken',
        'player.streak_repaired')
      and created_at <= ${at.toISOString()}::timestamptz
    order by data->>'streakKey', player_seq desc`.execute(db);
  const kept = await sql<{ n: string | number }>`
    select sum(coalesce(lines, 1)) as n from outbox
    where project_id = ${projectId} and player_id = ${id} and player_seq is not null`.execute(db);
  const isWhole = Number(kept.rows[0]!.n) >= seq;
  return {
    known: found.rows.map(({ key, type, current }) => ({
      streakKey: key,
      current: type === "player.streak_broken" ? 0 : (current ?? 0),
    })),
    caveats: isWhole ? [] : ["streaks are known as far as the player stream is kept, which is not whole"],
  };
};

/** Quests by the times of their rows: cycles that had begun, the latest first of each quest. */
const readQuests = async (
  { db }: Work,
  { projectId, id }: Player,
  at: Date,
): Promise<PointInTimeState["quests"]> => {
  const moment = at.toISOString();
  const found = await sql<{ quest_key: string; cycle_key: string; state: string }>`
    select distinct on (quest_key) quest_key, cycle_key,
      case when claimed_at <= ${moment}::timestamptz then 'CLAIMED'
        when completed_at <= ${moment}::timestamptz
          and (state <> 'EXPIRED' or claim_until > ${moment}::timestamptz) then 'COMPLETED'
        when state = 'EXPIRED' and coalesce(expires_at, updated_at) <= ${moment}::timestamptz then state
        when state in ('FAILED', 'ABANDONED') and updated_at <= ${moment}::timestamptz then state
        else 'IN_PROGRESS' end as state
    from player_quests
    where project_id = ${projectId} and player_id = ${id} and started_at <= ${moment}::timestamptz
      and state <> 'RESET'
    order by quest_key, started_at desc`.execute(db);
  return found.rows.map((row) => ({ questKey: row.quest_key, cycleKey: row.cycle_key, state: row.state }));
};
