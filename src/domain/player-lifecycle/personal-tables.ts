import { type RawBuilder, sql } from "kysely";
import { ERASURE_TYPE } from "../delivery/webhooks/persons.ts";
import { HOLDING_LIFE } from "./holdings.ts";
import { byPlayer, inLists, ofPlayer, type PersonalTable } from "./personal-table.ts";
import { type Person, texts, uuids } from "../players/person.ts";
import { lineCause, lineReason } from "../progression/ledger-line.ts";

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
  // Files of analytics hold what all players have done: an erasure deletes them, see erase-exports.ts.
  ofProject("analytics_exports", "id"),
  ofProject("analytics_export_pieces", "export_id"),
  // So do results of saved reports.
  ofProject("analytics_report_runs", "id"),
  // Players that wait to be put into a segment.
  { ...ofPlayer("analytics_listed", "job_id"), isNotExported: true },
  // Numbers of players and events, and nothing about them.
  { ...ofPlayer("analytics_players", "no", "KEPT"), isNotExported: true },
  { ...ofEvent("analytics_unknown", "KEPT"), isNotExported: true },
  { ...ofEvent("uncounted_events", "KEPT"), isNotExported: true },
  ofEvent("event_results", "KEPT"),
  ofEvent("event_traces", "DELETED"),
  ofEvent("event_q", "NOTHING"),
  ofEvent("event_due", "NOTHING"),
  { ...ofEvent("event_dedupe", "KEPT"), isOf: byKey },
];
