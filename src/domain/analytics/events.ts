import { type RawBuilder, sql } from "kysely";
import {
  bucketOf,
  calendarBuckets,
  type CalendarInterval,
  dateOfDay,
  type Frame,
  intervalAfter,
  intervalDays,
  intervalOf,
  monthOf,
  type Range,
} from "./range.ts";
import { invalid } from "../kernel/errors.ts";
import { idFloor } from "../kernel/ids.ts";
import { asOneMessage } from "../kernel/statements.ts";
import type { Work } from "../kernel/work.ts";

/**
 * Runs statements that may read few of many rows: a question's transaction plans for reading all of them.
 * Parallel workers take longer to start than such statements run: they are for plans that cost much more.
 */
export const withIndexes = async <T>({ db }: Work, run: () => Promise<T>): Promise<T> => {
  await asOneMessage(db, sql`set local enable_nestloop = on; set local parallel_setup_cost = 20000`);
  const result = await run();
  await asOneMessage(db, sql`set local enable_nestloop = off; set local parallel_setup_cost to default`);
  return result;
};

/** How much earlier than its own time an event may be received, in ms: the clocks of clients may be ahead. */
const AHEAD_MS = 86_400_000;

/** How much the clock that stamps ids may differ from the one that checks times, in ms. */
const CLOCKS_MS = 60_000;

/** A parameter that is an instant. */
export const instant = (ms: number): RawBuilder<unknown> => sql`${new Date(ms).toISOString()}::timestamptz`;

/** A parameter that is a list of texts. */
export const textList = (texts: readonly string[]): RawBuilder<unknown> =>
  sql`(select json_array_elements_text(${JSON.stringify(texts)}::json))`;

/** The condition that `e` counts, a row of `tracked_events`. */
export const COUNTS = sql`not starts_with(e.event_type, 'system.') and not exists (
  select 1 from event_results r where r.project_id = e.project_id and r.event_id = e.id
    and r.status in ('REJECTED', 'REVERTED'))`;

/** Which events a question is about; bounds in ms, half-open. */
export type EventSelection = {
  fromMs?: number;
  untilMs?: number;
  /** Default: all types. */
  types?: readonly string[] | undefined;
  /** A further condition on `e`, the row of `tracked_events`. */
  where?: RawBuilder<unknown> | undefined;
};

/**
 * A query of a project's events as analytics count them, with the columns id, player_id (the player who has
 * them now: the target of a merge), event_type, at, properties, and as they came: external_user_id,
 * idempotency_key, received_at. Rejected and reverted events do not count, nor the server's own, nor those at
 * `asOf` or later; failed ones do. When an event arrived does not matter.
 */
export const eventsOf = (
  { projectId, asOfMs, aheadMs }: Frame,
  { fromMs, untilMs = asOfMs, types, where }: EventSelection = {},
): RawBuilder<unknown> => {
  // An event is received at most a day before its time, and partitions of ids before that need not be read.
  const since =
    fromMs === undefined
      ? sql``
      : sql`and e.occurred_at >= ${instant(fromMs)}
        and e.id >= ${idFloor(fromMs - AHEAD_MS - CLOCKS_MS - aheadMs)}::uuid`;
  return sql`
    select e.id, coalesce(p.merged_into, p.id) as player_id, e.event_type, e.occurred_at as at, e.properties,
      e.external_user_id, e.idempotency_key, e.received_at
    from tracked_events e
    join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
    where e.project_id = ${projectId}::uuid and e.occurred_at < ${instant(Math.min(untilMs, asOfMs))}
      ${since} ${types === undefined ? sql`` : sql`and e.event_type in ${textList(types)}`}
      ${where === undefined ? sql`` : sql`and ${where}`}
      and ${COUNTS}`;
};

/**
 * Up to where rollups, and files of events, may come: to what nobody commits any more, and what waits for no
 * worker. What waits for its time is told of as waiting, and once more when it waits no longer.
 * @param lagMs how long what is committed may take
 */
export const readSettledId = async (
  { db, serverNow }: Work,
  projectId: string,
  lagMs: number,
): Promise<string> => {
  const { rows } = await sql<{ id: string }>`
    select event_id::text as id from event_q where project_id = ${projectId}::uuid
    order by event_id limit 1`.execute(db);
  const limit = idFloor(serverNow.getTime() - lagMs);
  const waiting = rows[0]?.id;
  return waiting !== undefined && waiting < limit ? waiting : limit;
};

/** When something happened that is counted, in ms, half-open. */
type Span = { fromMs: number; untilMs: number };

/** The condition that a column is within a span. */
export const within = (column: string, { fromMs, untilMs }: Span): RawBuilder<unknown> =>
  sql`${sql.ref(column)} >= ${instant(fromMs)} and ${sql.ref(column)} < ${instant(untilMs)}`;

/**
 * What is counted besides events: things that happened to a player, each with a time, an amount and, where
 * there are several kinds, a key. The sum of the amounts is the number.
 */
export const EFFECTS = [
  "xpGranted",
  "currencyGranted",
  "levelUps",
  "badgesEarned",
  "questsStarted",
  "questsCompleted",
  "adventuresStarted",
  "adventuresCompleted",
  "leaderboardsClosed",
  "leaderboardPlaces",
  "matches",
  "matchPlayers",
  "messages",
  "webhooksDelivered",
  "webhooksFailed",
] as const;
export type Effect = (typeof EFFECTS)[number];
/** Columns: metric, key, at, player_id (null where it is nobody's), amount. */
type Source = (frame: Frame, span: Span) => RawBuilder<unknown>;

const isNotReverted = (of: string): RawBuilder<unknown> => {
  const row = sql.raw(of);
  return sql`not exists (select 1 from event_results r where r.project_id = ${row}.project_id
    and r.event_id = ${row}.event_id and r.status = 'REVERTED')`;
};

const recordedSince = (of: string, { fromMs }: Span): RawBuilder<unknown> =>
  sql`${sql.raw(of)}.created_at >= ${instant(fromMs - AHEAD_MS)}`;

/** What players gain: rows that are only added, and that an erasure deletes at most. Rolled up. */
export const GAINS = ["xpGranted", "currencyGranted", "badgesEarned", "levelUps"] as const;
export type Gain = (typeof GAINS)[number];

/**
 * Rows of gains, whether their events count or not, with the columns id, metric, key, player_id, event_id,
 * created_at and amount.
 */
export const GAIN_ROWS: readonly {
  metrics: readonly Gain[];
  table: string;
  rowsOf: (projectId: string, where: RawBuilder<unknown>) => RawBuilder<unknown>;
}[] = [
  {
    // Without what a merge moved, and what players sent one another: nobody gained anything by it.
    metrics: ["xpGranted", "currencyGranted"],
    table: "ledger_entries",
    rowsOf: (projectId, where) => sql`
      select l.id, case l.asset when 'XP' then 'xpGranted' else 'currencyGranted' end as metric,
        coalesce(l.currency_key, '') as key, l.player_id, l.event_id, l.created_at, l.amount::float8 as amount
      from ledger_entries l
      where l.project_id = ${projectId}::uuid and l.asset in ('XP', 'CURRENCY')
        and l.amount > 0 and l.reverses is null and l.tx_id is null
        and l.cause->>'kind' is distinct from 'MERGE' and ${where}`,
  },
  {
    metrics: ["badgesEarned"],
    table: "badge_awards",
    rowsOf: (projectId, where) => sql`
      select l.id, 'badgesEarned' as metric, '' as key, l.player_id, l.event_id, l.created_at,
        1::float8 as amount
      from badge_awards l
      where l.project_id = ${projectId}::uuid and l.action = 'AWARDED' and ${where}`,
  },
  {
    metrics: ["levelUps"],
    table: "outbox",
    rowsOf: (projectId, where) => sql`
      select l.id, 'levelUps' as metric, '' as key, l.player_id, l.event_id, l.created_at, 1::float8 as amount
      from outbox l
      where l.project_id = ${projectId}::uuid and l.type = 'player.level_up' and ${where}`,
  },
];

/** Gains of a kind with their times: what an event brought has the event's time. */
const gained =
  (metric: Gain): Source =>
  ({ projectId, aheadMs }, span) => {
    const { table, rowsOf } = GAIN_ROWS.find(({ metrics }) => metrics.includes(metric))!;
    const recorded =
      table === "outbox"
        ? sql`l.id >= ${idFloor(span.fromMs - AHEAD_MS - aheadMs)}::uuid`
        : recordedSince("l", span);
    const asset = metric === "xpGranted" ? "XP" : "CURRENCY";
    const own = table === "ledger_entries" ? sql`and l.asset = ${asset}` : sql``;
    return sql`
      select ${metric}::text as metric, x.key, coalesce(e.occurred_at, x.created_at) as at, x.player_id,
        x.amount
      from (${rowsOf(projectId, sql`${recorded} ${own} and ${isNotReverted("l")}`)}) x
      left join tracked_events e on e.project_id = ${projectId}::uuid and e.id = x.event_id`;
  };

/** What players begin and complete: a column of a table of theirs. */
const reached =
  (metric: Effect, { table, key, at }: { table: string; key: string; at: string }): Source =>
  ({ projectId }, span) =>
    sql`
    select ${metric}, ${sql.ref(key)}, ${sql.ref(at)}, player_id, 1
    from ${sql.table(table)} where project_id = ${projectId}::uuid and ${within(at, span)}`;

const QUESTS = { table: "player_quests", key: "quest_key" } as const;
const ADVENTURES = { table: "player_adventures", key: "adventure_key" } as const;

/** Periods of leaderboards that ended, each value of a breakdown by itself, and who was on them then. */
const closings =
  (metric: Effect, amount: RawBuilder<unknown>): Source =>
  ({ projectId }, span) =>
    sql`
    select ${metric}, b.key, l.closed_at, null::uuid, ${amount}
    from leaderboard_periods l join leaderboards b on b.project_id = l.project_id and b.id = l.leaderboard_id
    where l.project_id = ${projectId}::uuid and ${within("l.closed_at", span)}`;

const matches: Source = ({ projectId }, span) => sql`
  select 'matches', mode, started_at, null::uuid, 1
  from lobbies where project_id = ${projectId}::uuid and ${within("started_at", span)}`;

const matchPlayers: Source = ({ projectId }, span) => sql`
  select 'matchPlayers', l.mode, l.started_at, m.player_id, 1
  from lobbies l join lobby_members m on m.project_id = l.project_id and m.lobby_id = l.id
  where l.project_id = ${projectId}::uuid and ${within("l.started_at", span)} and m.role = 'PLAYER'
    and (m.left_at is null or m.left_at >= l.started_at)`;

const messages: Source = ({ projectId }, span) => sql`
  select 'messages', '', created_at, sender_id, 1
  from chat_messages where project_id = ${projectId}::uuid and ${within("created_at", span)}
    and type = 'TEXT' and sender_id is not null and moderation <> 'REMOVED'`;

const deliveries =
  (metric: Effect, status: "success" | "failed"): Source =>
  ({ projectId }, span) =>
    sql`
    select ${metric}, d.event_type, d.created_at, null::uuid, 1
    from webhooks w join webhook_deliveries d on d.webhook_id = w.id and d.id >= ${idFloor(span.fromMs)}::uuid
    where d.project_id = ${projectId}::uuid and ${within("d.created_at", span)}
      and d.status = ${status} and not d.is_test`;

const SOURCES: Readonly<Record<Effect, Source>> = {
  xpGranted: gained("xpGranted"),
  currencyGranted: gained("currencyGranted"),
  levelUps: gained("levelUps"),
  badgesEarned: gained("badgesEarned"),
  questsStarted: reached("questsStarted", { ...QUESTS, at: "started_at" }),
  questsCompleted: reached("questsCompleted", { ...QUESTS, at: "completed_at" }),
  adventuresStarted: reached("adventuresStarted", { ...ADVENTURES, at: "started_at" }),
  adventuresCompleted: reached("adventuresCompleted", { ...ADVENTURES, at: "completed_at" }),
  leaderboardsClosed: closings("leaderboardsClosed", sql`1`),
  leaderboardPlaces: closings("leaderboardPlaces", sql`l.participants`),
  matches,
  matchPlayers,
  messages,
  webhooksDelivered: deliveries("webhooksDelivered", "success"),
  webhooksFailed: deliveries("webhooksFailed", "failed"),
};

/**
 * A query of effects within a span, with the columns metric, key, at, player_id (null where it is nobody's)
 * and amount. What was reverted does not count.
 */
export const effectsOf = (
  frame: Frame,
  effects: readonly Effect[],
  { fromMs, untilMs }: Span,
): RawBuilder<unknown> => {
  const span = { fromMs, untilMs: Math.min(untilMs, frame.asOfMs) };
  const parts = effects.map((effect) => SOURCES[effect](frame, span));
  return sql`
    select s.metric, s.key, s.at, coalesce(p.merged_into, s.player_id) as player_id, s.amount
    from (${sql.join(parts, sql` union all `)}) as s(metric, key, at, player_id, amount)
    left join players p on p.project_id = ${frame.projectId}::uuid and p.id = s.player_id
    where ${within("s.at", span)}`;
};

/** Periods in which players may have come, and cells of all of them. */
const COHORTS_MAX = 400;
const CELLS_MAX = 10_000;

/**
 * Consecutive days, weeks or months of a calendar: the one at `i` is `[startsMs[i], startsMs[i + 1])`. The
 * first `cohorts` of them touch the range.
 */
export type Periods = {
  unit: CalendarInterval;
  cohorts: number;
  /** First local days. */
  days: readonly number[];
  startsMs: readonly number[];
};

type PeriodsQuery = { unit: CalendarInterval; cellsOfEach: number; later: number };

/**
 * Returns the periods that a range touches, and `later` more that begin behind them.
 * @throws DomainError VALIDATION_ERROR for more than COHORTS_MAX, or CELLS_MAX with `cellsOfEach`
 */
export const periodsOf = (
  frame: Frame,
  { firstDay, lastDay }: Range,
  { unit, cellsOfEach, later }: PeriodsQuery,
): Periods => {
  const tooMany = (what: string): Error => invalid("from", `gives more than ${what}: take a shorter range`);
  // Each unit has no more days than this, so that a long range is refused before it is divided.
  const most = { day: 1, week: 7, month: 31 }[unit] * COHORTS_MAX;
  if (lastDay - firstDay >= most) throw tooMany(`${COHORTS_MAX} ${unit}s`);
  const cohorts = intervalDays(frame, unit, firstDay, lastDay).length;
  if (cohorts > COHORTS_MAX) throw tooMany(`${COHORTS_MAX} ${unit}s`);
  if (cohorts * cellsOfEach > CELLS_MAX) throw tooMany(`${CELLS_MAX} cells`);
  const end = intervalAfter(unit, intervalOf(unit, lastDay, frame.weekStart), later + 1);
  const { days, startsMs } = calendarBuckets(frame, unit, { firstDay, lastDay: end });
  return { unit, cohorts, days, startsMs };
};

/** Returns how many of some numbers, which ascend, are at most as large as one. */
export const countAtMost = (numbers: ArrayLike<number>, most: number): number => {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! <= most) low = middle + 1;
    else high = middle;
  }
  return low;
};

/** Returns the number of the period that contains an instant; -1 before the first one. */
export const periodAt = ({ startsMs }: Pick<Periods, "startsMs">, ms: number): number =>
  countAtMost(startsMs, ms) - 1;

/** Returns the number of the cohort whose period begins with a date. @throws DomainError VALIDATION_ERROR */
export const cohortAt = ({ days, cohorts }: Periods, date: string | undefined): number => {
  const cohort = days.slice(0, cohorts).findIndex((day) => dateOfDay(day) === date);
  if (cohort < 0)
    throw invalid("cohort", "must be the period of a cohort of the question, such as 2026-01-31");
  return cohort;
};

/**
 * Stretches of time between the instants that matter to a question: where periods begin, and where the range
 * begins and ends. Stretch -1 is all time before the range.
 */
export type Cuts = {
  atMs: readonly number[];
  /** By stretch: the period that it is part of. */
  periods: readonly number[];
  /** The stretches of the range are those from 0 to the one before this. */
  end: number;
};

/** Returns the stretches of a range and of the periods behind it, as far as there may be events. */
export const cutsOf = ({ asOfMs }: Frame, { startMs, endMs }: Range, periods: Periods): Cuts => {
  const known = new Set([startMs, endMs, ...periods.startsMs.filter((ms) => ms > startMs && ms < asOfMs)]);
  const atMs = [...known].toSorted((a, b) => a - b);
  return {
    atMs,
    periods: atMs.map((ms) => periodAt(periods, ms)),
    end: atMs.indexOf(endMs),
  };
};

/** The number of the stretch that contains an instant. */
export const stretchOf = ({ atMs }: Cuts, at: RawBuilder<unknown>): RawBuilder<unknown> =>
  bucketOf({ startsMs: atMs, endMs: Infinity }, at);

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

const shortDate = (day: number): string => {
  const [, month, date] = dateOfDay(day).split("-").map(Number) as [number, number, number];
  return `${MONTHS[month - 1]} ${date}`;
};

/** Returns a period as people name it: `Sep 1 - 7`, `Sep 29 - Oct 5`, `Sep 2014`, `Sep 1`. */
export const labelOf = (unit: CalendarInterval, day: number): string => {
  if (unit === "day") return shortDate(day);
  if (unit === "month")
    return `${MONTHS[new Date(day * 86_400_000).getUTCMonth()]} ${dateOfDay(day).slice(0, 4)}`;
  const last = day + 6;
  const end = monthOf(day) === monthOf(last) ? Number(dateOfDay(last).slice(8)) : shortDate(last);
  return `${shortDate(day)} - ${end}`;
};
