import { type RawBuilder, sql } from "kysely";
import { ERASURE_TYPE } from "../delivery/webhooks/plan.ts";
import { noteDeletedAwards } from "../kernel/events/uncounted.ts";
import { insertWarehouseChanges } from "../kernel/events/warehouse-changes.ts";
import { idFloor, NIL_ID, timeOfId } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { HOLDING_LIFE } from "./holdings.ts";
import { byPlayer, inLists, ofPlayer, type PersonalTable, updateRankEntries } from "./personal-table.ts";
import { type Person, texts, uuids } from "../players/player-refs.ts";
import { lineCause, lineReason } from "../progression/save.ts";
import { eraseReports } from "../social/chat/personal.ts";
import { eraseLobbies } from "../social/lobbies/leave-all.ts";

const byName = ({ projectId, names }: Person): RawBuilder<unknown> =>
  sql`t.project_id = ${projectId} and t.external_user_id = any(${texts(names)})`;

const byEvent = (person: Person): RawBuilder<unknown> => sql`
  t.project_id = ${person.projectId} and t.event_id in (
    select e.id from tracked_events e
    where e.project_id = ${person.projectId} and e.external_user_id = any(${texts(person.names)}))`;

/** Keys are found by their events: there is no index by event. */
const byKey = (person: Person): RawBuilder<unknown> => sql`
  t.project_id = ${person.projectId} and t.idempotency_key in (
    select e.idempotency_key from tracked_events e
    where e.project_id = ${person.projectId} and e.external_user_id = any(${texts(person.names)}))`;

const ofEvent = (table: string, onErase: PersonalTable["onErase"]): PersonalTable => ({
  table,
  orderBy: "event_id",
  onErase,
  isOf: byEvent,
  isNotExported: true,
});

/** A table whose rows are about all players of a project. */
const ofProject = (table: string, orderBy: string): PersonalTable => ({
  table,
  orderBy,
  onErase: "KEPT",
  isOf: ({ projectId }) => sql`t.project_id = ${projectId}`,
  isNotExported: true,
});

/**
 * Every table with rows of players. A new one is a line here: a test checks this list against the database.
 */
export const PERSONAL_TABLES: readonly PersonalTable[] = [
  {
    table: "players",
    orderBy: "id",
    onErase: "KEPT",
    isOf: ({ projectId, ids }) => sql`t.project_id = ${projectId} and t.id = any(${uuids(ids)})`,
  },
  ofPlayer("player_identities", "provider, external_id"),
  ofPlayer("player_states", "player_id"),
  ...Object.values(HOLDING_LIFE).map(({ table }) => table),
  ofPlayer("currency_holds", "id"),
  {
    ...ofPlayer("ledger_entries", "player_id, seq", "KEPT"),
    exported: sql`to_jsonb(t)
      || jsonb_build_object('reason', ${lineReason("t")}, 'cause', ${lineCause("t")})`,
  },
  ofPlayer("badge_awards", "id"),
  ofPlayer("streak_runs", "id"),
  ofPlayer("segment_spells", "id"),
  ofPlayer("reward_grants", "id", "KEPT"),
  ofPlayer("inbox_messages", "id"),
  {
    table: "chat_messages",
    orderBy: "channel_id, seq",
    onErase: "KEPT",
    isOf: ({ projectId, ids }) => sql`t.project_id = ${projectId} and t.sender_id = any(${uuids(ids)})`,
    // Former texts, and those of deleted or removed messages, are kept for moderators alone.
    exported: sql`to_jsonb(t) - 'original'`,
  },
  ofPlayer("chat_members", "channel_id"),
  ofPlayer("chat_reactions", "channel_id, seq"),
  {
    ...ofPlayer("chat_sanctions", "id"),
    // The reason of a shadow mute is a moderator's note; the player sees the others.
    exported: sql`case when t.kind = 'SHADOW_MUTE' then to_jsonb(t) - 'reason' else to_jsonb(t) end`,
  },
  // Reports made by the person; who has reported the person is not disclosed.
  {
    table: "chat_reports",
    orderBy: "id",
    onErase: "KEPT",
    isOf: ({ projectId, ids }) => sql`t.project_id = ${projectId} and t.reporter_id = any(${uuids(ids)})`,
    // The outcome of a report is not disclosed to the reporter.
    exported: sql`to_jsonb(t) - 'assignee' - 'resolved_by' - 'action'`,
  },
  ofPlayer("lobby_members", "lobby_id"),
  ofPlayer("lobby_invites", "lobby_id"),
  ofPlayer("lobby_bans", "lobby_id"),
  {
    ...ofPlayer("rule_executions", "id", "KEPT"),
    isOf: (person) => sql`${byPlayer(person)} and t.effects is not null`,
  },
  {
    table: "leaderboard_notices",
    orderBy: "period_id",
    onErase: "DELETED",
    isOf: inLists,
    isNotExported: true,
  },
  // Places of closed periods stay, anonymous once their player is ERASED.
  ofPlayer("leaderboard_results", "period_id, position", "NOTHING"),
  ofPlayer("score_reviews", "id"),
  {
    ...ofPlayer("quest_submissions", "id"),
    // Who has decided is a member of the team.
    exported: sql`to_jsonb(t) - 'reviewed_by'`,
  },
  {
    ...ofPlayer("quest_codes", "quest_key, step_key, hash", "KEPT"),
    // No answer shows codes.
    exported: sql`to_jsonb(t) - 'hash'`,
  },
  {
    table: "player_merges",
    orderBy: "id",
    onErase: "DELETED",
    isOf: ({ projectId, ids }) => sql`
      t.project_id = ${projectId} and (t.target_id = any(${uuids(ids)}) or t.source_id = any(${uuids(ids)}))`,
  },
  { table: "tracked_events", orderBy: "id", onErase: "KEPT", isOf: byName },
  {
    ...ofPlayer("outbox", "player_seq", "KEPT"),
    exported: sql`case when t.type = 'chat.player_sanctioned' and t.data->>'kind' = 'SHADOW_MUTE'
      then to_jsonb(t) #- '{data,reason}' else to_jsonb(t) end`,
  },
  // Webhooks contain the same as the stream. No index leads from a player to it: it is scanned.
  {
    table: "webhook_events",
    orderBy: "seq",
    onErase: "KEPT",
    isOf: ({ projectId, ids }) => sql`
      t.project_id = ${projectId} and t.players && ${uuids(ids)} and t.body is not null
      and t.type <> ${ERASURE_TYPE}`,
    isNotExported: true,
  },
  {
    table: "webhook_deliveries",
    orderBy: "id",
    onErase: "KEPT",
    isOf: ({ projectId, ids }) => sql`
      t.webhook_id in (
        select w.id from webhooks w join projects p on p.tenant_id = w.tenant_id where p.id = ${projectId})
      and t.project_id = ${projectId} and t.event_seq in (
        select e.seq from webhook_events e
        where e.project_id = ${projectId} and e.players && ${uuids(ids)} and e.body is not null
          and e.type <> ${ERASURE_TYPE})`,
    isNotExported: true,
  },
  // Files of analytics hold what all players have done: an erasure deletes them.
  ofProject("analytics_exports", "id"),
  ofProject("analytics_export_pieces", "export_id"),
  // So do results of saved reports.
  ofProject("analytics_report_runs", "id"),
  // Players that wait to be put into a segment.
  { ...ofPlayer("analytics_listed", "job_id"), isNotExported: true },
  // Numbers of players and events, and nothing about them.
  { ...ofPlayer("analytics_players", "no", "KEPT"), isNotExported: true },
  ofProject("analytics_closed_days", "day"),
  ofProject("analytics_standings", "day"),
  ofProject("analytics_zones", "timezone"),
  { ...ofEvent("analytics_unknown", "KEPT"), isNotExported: true },
  { ...ofEvent("uncounted_events", "KEPT"), isNotExported: true },
  ofEvent("event_results", "KEPT"),
  ofEvent("event_traces", "DELETED"),
  ofEvent("event_q", "NOTHING"),
  ofEvent("event_due", "NOTHING"),
  { ...ofEvent("event_dedupe", "KEPT"), isOf: byKey },
];

/** Number of rows by table that an erasure has changed or deleted. */
export type Counts = Record<string, number>;

/** Replacement for a text that may have described the person. */
const ERASED = "erased";

const EVENTS_AT_ONCE = 1_000;
const ROWS_AT_ONCE = 5_000;
/** Maximum difference between the clock of an id and that of its transaction, in ms. */
const CLOCKS_MS = 60_000;

/** The person's new name: an id that reveals nothing and is unique. */
export const erasedName = (playerId: string): string => `erased:${playerId}`;

/** Counts rows of a table; zero counts are omitted. */
export const add = (rows: Counts, table: string, count: number): void => {
  if (count > 0) rows[table] = (rows[table] ?? 0) + count;
};

const count = async (work: Work, statement: RawBuilder<unknown>): Promise<number> =>
  (await statement.execute(work.db)).rows.length;

/** Events of a person: all up to an id, and single ones after it. */
type OwnEvents = { upTo: string; also: readonly string[] };

/**
 * Returns the person's events that are there by now: every other one is somebody else's. An id says when an
 * event came, and not when it was committed, so those of the last minute are named.
 */
export const eventsUntilNow = async ({ db, serverNow }: Work, person: Person): Promise<OwnEvents> => {
  const upTo = idFloor(serverNow.getTime() - CLOCKS_MS);
  const found = await sql<{ id: string }>`
    select id from tracked_events
    where project_id = ${person.projectId} and external_user_id = any(${texts(person.names)})
      and id > ${upTo}::uuid`.execute(db);
  return { upTo, also: found.rows.map(({ id }) => id) };
};

/**
 * Detaches waiting events from the person: when they are processed they are REJECTED, since their player is
 * ERASED. Nobody processes them meanwhile: they are held.
 */
export const eraseQueued = async (work: Work, person: Person, rows: Counts): Promise<void> => {
  const { projectId, names } = person;
  const waiting = await sql<{ id: string }>`
    select e.id from tracked_events e
    where e.project_id = ${projectId} and e.external_user_id = any(${texts(names)})
      and (exists (select 1 from event_q q where q.project_id = e.project_id and q.event_id = e.id)
        or exists (
          select 1 from event_due d where d.project_id = e.project_id and d.event_id = e.id))`.execute(
    work.db,
  );
  const ids = waiting.rows.map(({ id }) => id);
  await eraseThese(work, person, { ids, rows });
  // A claim that has read them with their names does not find them in the queue, and is rolled back.
  await sql`
    update event_q set seq = default
    where project_id = ${projectId} and event_id = any(${uuids(ids)})`.execute(work.db);
};

/** Erases a page of events. @returns whether there may be more */
export const eraseEvents = async (
  work: Work,
  person: Person,
  { upTo, also, rows }: OwnEvents & { rows: Counts },
): Promise<boolean> => {
  const { projectId, names } = person;
  const found = await sql<{ id: string }>`
    select id from tracked_events
    where project_id = ${projectId} and external_user_id = any(${texts(names)})
      and (id <= ${upTo}::uuid or id = any(${uuids(also)}))
    order by id limit ${EVENTS_AT_ONCE}`.execute(work.db);
  await eraseThese(work, person, { ids: found.rows.map(({ id }) => id), rows });
  return found.rows.length === EVENTS_AT_ONCE;
};

type These = { ids: readonly string[]; rows: Counts };

const eraseThese = async (work: Work, person: Person, { ids, rows }: These): Promise<void> => {
  if (ids.length === 0) return;
  const { projectId, playerId } = person;
  const ofEvents = sql`project_id = ${projectId} and event_id = any(${uuids(ids)})`;
  // Before the events, which contain the keys.
  add(rows, "event_dedupe", await eraseKeys(work, person, ids));
  add(rows, "event_traces", await count(work, sql`delete from event_traces where ${ofEvents} returning 1`));
  await eraseFailures(work, person, ids);
  add(
    rows,
    "event_results",
    await count(
      work,
      sql`update event_results set error = ${ERASED} where ${ofEvents} and error is not null returning 1`,
    ),
  );
  await sql`update outbox set data = '{}' where ${ofEvents} and type <> 'player.erased'`.execute(work.db);
  const events = sql`
    update tracked_events set external_user_id = ${erasedName(playerId)}, properties = '{}',
      idempotency_key = null
    where project_id = ${projectId} and id = any(${uuids(ids)}) returning 1`;
  add(rows, "tracked_events", await count(work, events));
  await insertWarehouseChanges(projectId, "ERASED", sql`select unnest(${uuids(ids)}) as ref`).execute(
    work.db,
  );
};

/**
 * Deletes idempotency keys that contain the person's names; the others stay, so that a repeated event does
 * not count for somebody new.
 */
const eraseKeys = (work: Work, { projectId, names }: Person, ids: readonly string[]): Promise<number> =>
  count(
    work,
    sql`
    delete from event_dedupe d using tracked_events e
    where e.project_id = ${projectId} and e.id = any(${uuids(ids)}) and d.project_id = e.project_id
      and d.idempotency_key = e.idempotency_key
      and exists (select 1 from unnest(${texts(names)}) as n(name)
        where position(lower(n.name) in lower(d.idempotency_key)) > 0)
    returning 1`,
  );

type FailureRow = { event_id: string; processed_at: Date };

/** `event.failed` names the sender but is no line of the player's stream: it is found by its time. */
const eraseFailures = async (work: Work, person: Person, ids: readonly string[]): Promise<void> => {
  const { projectId, playerId } = person;
  const failed = await sql<FailureRow>`
    select event_id, processed_at from event_results
    where project_id = ${projectId} and event_id = any(${uuids(ids)}) and status = 'FAILED'`.execute(work.db);
  for (const { event_id: eventId, processed_at: processedAt } of failed.rows) {
    // Ids have the server's time; a sandbox's clock may be ahead of it.
    const [fromMs, untilMs] = [timeOfId(eventId), processedAt.getTime()];
    const said = JSON.stringify({ externalUserId: erasedName(playerId), error: ERASED });
    await sql`
      update outbox set data = data || ${said}::jsonb
      where project_id = ${projectId} and id >= ${idFloor(fromMs - CLOCKS_MS)}::uuid
        and id <= ${idFloor(untilMs + CLOCKS_MS)}::uuid and type = 'event.failed'
        and data->>'eventId' = ${eventId}`.execute(work.db);
  }
};

/** Erases the player's own rows: everything that a typical person has, in one transaction. */
export const eraseOwnRows = async (work: Work, person: Person, rows: Counts): Promise<void> => {
  const { projectId, playerId, ids } = person;
  await updateRankEntries(work, { projectId, id: playerId }, true);
  add(rows, "lobbies", await eraseLobbies(work, person));
  await noteDeletedAwards(work, projectId, uuids(ids));
  for (const one of PERSONAL_TABLES) {
    if (one.onErase !== "DELETED" || one.table === "event_traces") continue;
    const deletion = sql`delete from ${sql.table(one.table)} t where ${one.isOf(person)} returning 1`;
    add(rows, one.table, await count(work, deletion));
  }
  const isOfPlayer = sql`project_id = ${projectId} and player_id = any(${uuids(ids)})`;
  const changes: [table: string, statement: RawBuilder<unknown>][] = [
    [
      "player_balances",
      sql`update player_balances set held = 0 where ${isOfPlayer} and held > 0 returning 1`,
    ],
    [
      "rule_executions",
      sql`update rule_executions set effects = null where ${isOfPlayer} and effects is not null returning 1`,
    ],
    [
      "reward_grants",
      sql`update reward_grants set code = null, contents = '{}', cause = cause - 'note' - 'actor'
        where ${isOfPlayer} returning 1`,
    ],
    ["quest_codes", sql`update quest_codes set player_id = null where ${isOfPlayer} returning 1`],
    ["chat_reports", eraseReports(projectId, uuids(ids))],
    ["players", erasePlayers(work, person)],
    ["project_jobs", forgetResults(person)],
  ];
  for (const [table, statement] of changes) add(rows, table, await count(work, statement));
};

/** Players who were merged into this one keep referring to it, under an anonymous name. */
const erasePlayers = ({ now }: Work, { projectId, playerId, ids }: Person): RawBuilder<unknown> => sql`
  update players set external_user_id = 'erased:' || id, display_name = null, avatar_url = null,
    timezone = null, zone_changed_at = null, locale = null, country = null,
    attributes = '{}', metadata = '{}', tags = '{}', lives = null, lives_anchor_at = null,
    lives_unlimited_until = null, first_seen_at = null, last_seen_at = null,
    deleted_at = null, status = case when id = ${playerId} then 'ERASED' else status end,
    updated_at = ${now.toISOString()}::timestamptz
  where project_id = ${projectId} and id = any(${uuids(ids)}) returning 1`;

/** Erases the player from other jobs' results: exports, samples of abandoned backtests. */
const forgetResults = ({ projectId, ids, names }: Person): RawBuilder<unknown> => sql`
  update project_jobs set result = null, state = case when ${GIVEN_UP_BACKTEST} then '{}' else state end
  where project_id = ${projectId} and (result is not null or ${GIVEN_UP_BACKTEST})
    and exists (
      select 1 from jsonb_array_elements_text(${JSON.stringify([...ids, ...names])}::jsonb) as m(mark)
      where position(to_jsonb(m.mark)::text in coalesce(result::text, state::text)) > 0)
  returning 1`;

const GIVEN_UP_BACKTEST = sql`(kind = 'BACKTEST' and status in ('FAILED', 'CANCELLED'))`;

type Paged = { after: readonly (string | number)[]; rows: Counts };

/**
 * Erases the texts of a page of the ledger: actors, and reasons in free text. @returns where the next page
 * begins
 */
export const eraseLedger = async (
  work: Work,
  { projectId, ids }: Person,
  { after, rows }: Paged,
): Promise<(string | number)[] | undefined> => {
  const [player, seq] = after.length === 2 ? after : [NIL_ID, 0];
  const changed = await sql<{ player_id: string; seq: number }>`
    with page as (
      select player_id, seq from ledger_entries
      where project_id = ${projectId} and player_id = any(${uuids(ids)})
        and (player_id, seq) > (${player}::uuid, ${seq}::bigint)
      order by player_id, seq limit ${ROWS_AT_ONCE}),
    changed as (
      update ledger_entries t set reason = ${ERASED}, cause = t.cause - 'note' - 'actor'
      from page p where t.project_id = ${projectId} and t.player_id = p.player_id and t.seq = p.seq
      returning t.player_id, t.seq)
    select player_id, seq from changed order by player_id, seq`.execute(work.db);
  add(rows, "ledger_entries", changed.rows.length);
  const last = changed.rows.at(-1);
  return changed.rows.length === ROWS_AT_ONCE ? [last!.player_id, last!.seq] : undefined;
};

/** Erases the content of a page of the player's stream; its lines stay, so that their seqs have no gap. */
export const eraseOutbox = async (
  work: Work,
  { projectId, ids }: Person,
  { after, rows }: Paged,
): Promise<(string | number)[] | undefined> => {
  const [player, seq] = after.length === 2 ? after : [NIL_ID, 0];
  if (after.length === 0) await eraseSilent(work, { projectId, ids, rows });
  const found = await sql<{ player_id: string; player_seq: number }>`
    with page as (
      select id, player_id, player_seq from outbox
      where project_id = ${projectId} and player_id = any(${uuids(ids)}) and player_seq is not null
        and (player_id, player_seq) > (${player}::uuid, ${seq}::bigint)
      order by player_id, player_seq limit ${ROWS_AT_ONCE}),
    changed as (
      update outbox t set data = '{}' from page p
      where t.project_id = ${projectId} and t.id = p.id and t.type <> 'player.erased'
      returning t.event_id),
    told as (${insertWarehouseChanges(
      projectId,
      "ERASED",
      // Of what others did: the person's own events are erased already.
      sql`select distinct c.event_id as ref from changed c
        join tracked_events e on e.project_id = ${projectId}::uuid and e.id = c.event_id
        where not starts_with(e.external_user_id, 'erased:')`,
    )})
    select player_id, player_seq from page order by player_id, player_seq`.execute(work.db);
  add(rows, "outbox", found.rows.length);
  const last = found.rows.at(-1);
  return found.rows.length === ROWS_AT_ONCE ? [last!.player_id, last!.player_seq] : undefined;
};

const eraseSilent = async (
  work: Work,
  { projectId, ids, rows }: Pick<Person, "projectId" | "ids"> & { rows: Counts },
): Promise<void> => {
  const silent = sql`
    update outbox set data = '{}'
    where project_id = ${projectId} and player_id = any(${uuids(ids)}) and player_seq is null returning 1`;
  add(rows, "outbox", await count(work, silent));
};
