import { type RawBuilder, sql } from "kysely";
import { idFloor } from "../kernel/ids.ts";
import { instant } from "./events.ts";
import type { Frame } from "./range.ts";

/** When something happened that is counted, in ms, half-open. */
export type Span = { fromMs: number; untilMs: number };

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
  "matches",
  "matchPlayers",
  "messages",
  "webhooksDelivered",
  "webhooksFailed",
] as const;
export type Effect = (typeof EFFECTS)[number];

/** How much earlier than its own time something may have been recorded, in ms. */
const AHEAD_MS = 86_400_000;

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
  ({ projectId }, { fromMs, untilMs }) =>
    sql`
    select ${metric}, ${sql.ref(key)}, ${sql.ref(at)}, player_id, 1
    from ${sql.table(table)}
    where project_id = ${projectId}::uuid and ${sql.ref(at)} >= ${instant(fromMs)}
      and ${sql.ref(at)} < ${instant(untilMs)}`;

const QUESTS = { table: "player_quests", key: "quest_key" } as const;
const ADVENTURES = { table: "player_adventures", key: "adventure_key" } as const;

const matches: Source = ({ projectId }, { fromMs, untilMs }) => sql`
  select 'matches', mode, started_at, null::uuid, 1
  from lobbies where project_id = ${projectId}::uuid and started_at >= ${instant(fromMs)}
    and started_at < ${instant(untilMs)}`;

const matchPlayers: Source = ({ projectId }, { fromMs, untilMs }) => sql`
  select 'matchPlayers', l.mode, l.started_at, m.player_id, 1
  from lobbies l join lobby_members m on m.project_id = l.project_id and m.lobby_id = l.id
  where l.project_id = ${projectId}::uuid and l.started_at >= ${instant(fromMs)}
    and l.started_at < ${instant(untilMs)} and m.role = 'PLAYER'
    and (m.left_at is null or m.left_at >= l.started_at)`;

const messages: Source = ({ projectId }, { fromMs, untilMs }) => sql`
  select 'messages', '', created_at, sender_id, 1
  from chat_messages where project_id = ${projectId}::uuid and created_at >= ${instant(fromMs)}
    and created_at < ${instant(untilMs)} and type = 'TEXT' and sender_id is not null
    and moderation <> 'REMOVED'`;

const deliveries =
  (metric: Effect, status: "success" | "failed"): Source =>
  ({ projectId }, { fromMs, untilMs }) =>
    sql`
    select ${metric}, d.event_type, d.created_at, null::uuid, 1
    from webhooks w join webhook_deliveries d on d.webhook_id = w.id and d.id >= ${idFloor(fromMs)}::uuid
    where d.project_id = ${projectId}::uuid and d.created_at >= ${instant(fromMs)}
      and d.created_at < ${instant(untilMs)} and d.status = ${status} and not d.is_test`;

const SOURCES: Readonly<Record<Effect, Source>> = {
  xpGranted: gained("xpGranted"),
  currencyGranted: gained("currencyGranted"),
  levelUps: gained("levelUps"),
  badgesEarned: gained("badgesEarned"),
  questsStarted: reached("questsStarted", { ...QUESTS, at: "started_at" }),
  questsCompleted: reached("questsCompleted", { ...QUESTS, at: "completed_at" }),
  adventuresStarted: reached("adventuresStarted", { ...ADVENTURES, at: "started_at" }),
  adventuresCompleted: reached("adventuresCompleted", { ...ADVENTURES, at: "completed_at" }),
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
    where s.at >= ${instant(span.fromMs)} and s.at < ${instant(span.untilMs)}`;
};
