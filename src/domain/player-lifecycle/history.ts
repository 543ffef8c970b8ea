import { z } from "zod";
import { sql } from "kysely";
import { levelOf } from "../evaluation/xp/levels.ts";
import { longestRunsIn } from "../economy/streaks/longest-runs.ts";
import { invalid } from "../kernel/errors.ts";
import type { Work } from "../kernel/work.ts";
import { type Calendar, calendarOf, windowNumber, windowStart } from "../kernel/zones.ts";
import type { Player } from "../players/player.ts";
import { projectPlans, readPlan } from "../progression/plan.ts";

/** Maximum span of one recap. */
export const RECAP_DAYS_MAX = 366;
const DAY_MS = 86_400_000;

export const Recap = z
  .object({
    playerId: z.uuid(),
    from: z.iso.datetime(),
    to: z.iso.datetime(),
    timezone: z
      .string()
      .meta({ description: "The time zone that defines days: the player's, otherwise the project's" }),
    xpGained: z.int(),
    levelsGained: z.int(),
    currencies: z.array(z.object({ currencyKey: z.string(), earned: z.int(), spent: z.int() })),
    badges: z.array(z.object({ badgeKey: z.string(), tier: z.int(), earnedAt: z.iso.datetime() })),
    activeDays: z.int().meta({ description: "Days on which XP was gained" }),
    bestDay: z.object({ date: z.iso.date(), xp: z.int() }).nullable(),
    streaks: z.array(z.object({ streakKey: z.string(), longest: z.int() })),
  })
  .meta({ id: "Recap" });
export type Recap = z.output<typeof Recap>;

/** Returns the moment itself, or when the day of a date begins. */
const beginning = (given: Date | string, calendar: Calendar): Date =>
  typeof given === "string" ? new Date(windowStart("DAY", calendar, Date.parse(given) / DAY_MS)) : given;

/** Summarizes a player's recorded activity in a span, of moments or days. @throws DomainError VALIDATION_ERROR */
export const readRecap = async (
  work: Work,
  player: Player,
  asked: { from: Date | string; to: Date | string },
): Promise<Recap> => {
  const plan = await readPlan(work, player.projectId, projectPlans);
  const calendar = calendarOf(plan, player.timezone);
  const [from, to] = [beginning(asked.from, calendar), beginning(asked.to, calendar)];
  if (to.getTime() <= from.getTime()) throw invalid("to", "must be after from");
  if (to.getTime() - from.getTime() > RECAP_DAYS_MAX * DAY_MS)
    throw invalid("to", `must be at most ${RECAP_DAYS_MAX} days after from`);
  const span = spanOf(player, from, to);
  const days = await readDays(work, span, calendar);
  const [best] = days.toSorted((a, b) => b.xp - a.xp || (a.date < b.date ? -1 : 1));
  const { levelsGained, streaks } = await readStream(work, span);
  const runs = await longestRunsIn(work, player, { from, to });
  const grown = [...runs].filter(([, longest]) => longest > 0);
  return {
    playerId: player.id,
    from: from.toISOString(),
    to: to.toISOString(),
    timezone: calendar.zone,
    xpGained: days.reduce((sum, { xp }) => sum + xp, 0),
    levelsGained,
    currencies: await readCurrencies(work, span),
    badges: await readRecapBadges(work, span),
    activeDays: days.length,
    bestDay: best ?? null,
    // Of streaks that are archived by now, or count events, as they were told.
    streaks: [
      ...streaks.filter(({ streakKey }) => !runs.has(streakKey)),
      ...grown.map(([streakKey, longest]) => ({ streakKey, longest })),
    ].toSorted((a, b) => (a.streakKey < b.streakKey ? -1 : 1)),
  };
};

type Span = ReturnType<typeof spanOf>;

/**
 * Returns the rows of a table in the span, as `l` with the time `at`: what an event has brought, however late
 * that came, has the event's time. Without those of events that have been reverted.
 */
const spanOf =
  ({ projectId, id }: Player, from: Date, to: Date) =>
  (table: "ledger_entries" | "badge_awards" | "outbox") =>
    sql`(
    select l.*, least(coalesce(e.occurred_at, l.created_at), l.created_at) as at
    from ${sql.table(table)} l
    left join tracked_events e on e.project_id = l.project_id and e.id = l.event_id
    where l.project_id = ${projectId} and l.player_id = ${id} and l.created_at >= ${from.toISOString()}::timestamptz
      and least(coalesce(e.occurred_at, l.created_at), l.created_at) >= ${from.toISOString()}::timestamptz
      and least(coalesce(e.occurred_at, l.created_at), l.created_at) < ${to.toISOString()}::timestamptz
      and not exists (select 1 from event_results r where r.project_id = l.project_id
        and r.event_id = l.event_id and r.status = 'REVERTED')) l`;

/** All offsets of today's zones are whole quarters of an hour. */
const QUARTER_S = 900;

/** Returns XP gained by local day; merged XP belongs to the days on which the other player gained it. */
const readDays = async (
  { db }: Work,
  span: Span,
  calendar: Calendar,
): Promise<{ date: string; xp: number }[]> => {
  // The database may know other zones than this process, or older rules of them.
  const found = await sql<{ quarter: number; xp: number }>`
    select floor(extract(epoch from at) / ${QUARTER_S}) as quarter, sum(amount) as xp
    from ${span("ledger_entries")}
    where asset = 'XP' and amount > 0 and reverses is null and cause->>'kind' <> 'MERGE'
    group by 1 order by 1`.execute(db);
  const days = new Map<number, number>();
  for (const { quarter, xp } of found.rows) {
    const day = windowNumber("DAY", calendar, quarter * QUARTER_S * 1_000);
    days.set(day, (days.get(day) ?? 0) + xp);
  }
  return [...days].map(([day, xp]) => ({ date: new Date(day * DAY_MS).toISOString().slice(0, 10), xp }));
};

const readCurrencies = async ({ db }: Work, span: Span): Promise<Recap["currencies"]> => {
  const found = await sql<{ key: string; earned: number; spent: number }>`
    select currency_key as key, coalesce(sum(amount) filter (where amount > 0), 0) as earned,
      coalesce(-sum(amount) filter (where amount < 0), 0) as spent
    from ${span("ledger_entries")}
    where asset = 'CURRENCY' and reverses is null and cause->>'kind' <> 'MERGE'
    group by 1 order by 1`.execute(db);
  return found.rows.map(({ key, earned, spent }) => ({
    currencyKey: key,
    earned,
    spent,
  }));
};

/** Maximum number of badges shown for one span. */
const BADGES_MAX = 1_000;

const readRecapBadges = async ({ db }: Work, span: Span): Promise<Recap["badges"]> => {
  const found = await sql<{ badge_key: string; tier: number; at: Date }>`
    select badge_key, tier, min(at) as at from ${span("badge_awards")}
    where action = 'AWARDED' and cause->>'kind' <> 'MERGE'
    group by 1, 2 order by 3, 1, 2 limit ${BADGES_MAX}`.execute(db);
  return found.rows.map(({ badge_key: badgeKey, tier, at }) => ({
    badgeKey,
    tier,
    earnedAt: at.toISOString(),
  }));
};

type StreamRow = { type: string; key: string | null; levels: number; longest: number | null };

const readStream = async ({ db }: Work, span: Span): Promise<Pick<Recap, "levelsGained" | "streaks">> => {
  const found = await sql<StreamRow>`
    select type, data->>'streakKey' as key, max((data->>'current')::int) as longest,
      coalesce(sum((data->>'newLevel')::int - (data->>'previousLevel')::int), 0) as levels
    from ${span("outbox")} where type in ('player.level_up', 'player.streak_extended')
    group by 1, 2 order by 2`.execute(db);
  const levelsGained = found.rows
    .filter(({ type }) => type === "player.level_up")
    .reduce((sum, { levels }) => sum + levels, 0);
  const streaks = found.rows.flatMap(({ key, longest }) =>
    key === null || longest === null ? [] : [{ streakKey: key, longest }],
  );
  return { levelsGained, streaks };
};

/** A player's state at a moment, as it was recorded then. */
export const PointInTimeState = z
  .object({
    playerId: z.uuid(),
    at: z.iso.datetime(),
    xp: z.int(),
    level: z.int(),
    currencies: z.record(z.string(), z.int()),
    badges: z.array(z.object({ badgeKey: z.string(), tier: z.int() })),
    streaks: z.array(z.object({ streakKey: z.string(), current: z.int() })),
    quests: z.array(z.object({ questKey: z.string(), cycleKey: z.string(), state: z.string() })),
    caveats: z.array(z.string()).meta({ description: "Which parts of this are uncertain, and why" }),
  })
  .meta({ id: "PointInTimeState" });
export type PointInTimeState = z.output<typeof PointInTimeState>;

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
  const found = await sql<{ key: string; last: number; highest: number }>`
    select coalesce(currency_key, '') as key, max(balance_after) as highest,
      (array_agg(balance_after order by seq desc))[1] as last
    from ledger_entries
    where project_id = ${projectId} and player_id = ${id} and asset in ('XP', 'CURRENCY')
      and created_at <= ${at.toISOString()}::timestamptz
    group by 1`.execute(db);
  return new Map(found.rows.map(({ key, last, highest }) => [key, { last, highest }]));
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
  const kept = await sql<{ n: number | null }>`
    select sum(coalesce(lines, 1)) as n from outbox
    where project_id = ${projectId} and player_id = ${id} and player_seq is not null`.execute(db);
  const isWhole = (kept.rows[0]!.n ?? 0) >= seq;
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
