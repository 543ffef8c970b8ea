import { z } from "zod";
import { CONTENT_MAX } from "../../domain/kernel/events/social-views.ts";
import type { Bucket } from "../../domain/accounts/rate-limits/limiter.ts";
import { CHANNELS_MAX } from "../../domain/social/chat/channels.ts";
import { MENTIONS_MAX } from "../../domain/social/chat/moderation/filters.ts";
import { REPORT_NOTE_MAX, REPORTS_RATE } from "../../domain/social/chat/moderation/report-queue.ts";
import { APPEAL_MAX, SANCTIONS_MAX } from "../../domain/social/chat/moderation/sanction-changes.ts";
import { WORD_LENGTH_MAX } from "../../domain/social/chat/moderation/word-filter.ts";
import { LIST_WORDS_MAX, WORD_LISTS_MAX } from "../../domain/social/chat/moderation/show-sanction.ts";
import { REACTIONS_MAX } from "../../domain/social/chat/commands.ts";
import { EMOJI_MAX } from "../../domain/social/chat/context.ts";
import {
  CLOSED_KEPT_MS,
  HEARTBEAT_MS,
  INVITE_MS,
  INVITES_AT_ONCE,
  INVITES_OPEN_MAX,
  LOBBIES_FILTER_MAX_BYTES,
  LOBBIES_SHOWN_MAX,
  LOBBY_DATA_MAX_BYTES,
  LOBBY_LIFE_MS,
  LOBBY_PLAYERS_MAX,
  LOBBY_SOCKETS_MAX,
  MEMBER_DATA_MAX_BYTES,
  OPEN_LOBBIES_MAX,
  REQUESTS_WAITING_MAX,
  SIGNAL_MAX_BYTES,
  SIGNAL_TO_MAX,
  SIGNALS_PER_SECOND_MAX,
  SPECTATORS_MAX,
} from "../../domain/social/lobbies/fields.ts";
import { KEY_METADATA_MAX_BYTES, WORKING_KEYS_MAX } from "../../domain/accounts/api-keys/api-key.ts";
import { SESSIONS_PER_USER_MAX } from "../../domain/accounts/auth/sessions.ts";
import { CUSTOM_DOMAINS_MAX } from "../../domain/accounts/domains/known.ts";
import {
  FIRST_ORDERS_OF_ALL,
  ORDERS_OF_ALL,
  ORDERS_PER_NAME,
  ORDERS_PER_TENANT,
} from "../../domain/accounts/domains/order.ts";
import { PASSKEYS_MAX } from "../../domain/accounts/mfa/passkeys.ts";
import { PROJECTS_PER_TENANT_MAX } from "../../domain/accounts/projects/projects.ts";
import { COLUMNS_MAX } from "../../domain/analytics/exports/columns.ts";
import {
  EXPORT_FILE_MAX_BYTES,
  EXPORT_KEPT_MS,
  EXPORTS_MAX,
} from "../../domain/analytics/exports/export-job.ts";
import { LIST_SEGMENT_MAX } from "../../domain/analytics/lists/list-segment.ts";
import { PLAYER_VALUES_MAX_BYTES } from "../../domain/analytics/packed.ts";
import { RUNS_KEPT } from "../../domain/analytics/reports/runs.ts";
import { REPORTS_MAX } from "../../domain/analytics/reports/saved-reports.ts";
import { MAIL_TO_MAX, PARAMETERS_MAX_BYTES } from "../../domain/analytics/reports/schedule.ts";
import { HOLDS_MAX, LOTS_MAX } from "../../domain/economy/currencies/holds.ts";
import { ARCHIVED_FACTOR } from "../../domain/economy/definitions/definitions.ts";
import { FREE_STEP_CODES_MAX, STEP_CODES_MAX } from "../../domain/economy/quests/submissions.ts";
import { CODES_MAX, FREE_CODES_MAX } from "../../domain/economy/rewards/catalogue.ts";
import { BULK_PLAYERS_MAX } from "../../domain/economy/rewards/references.ts";
import { MEMBERS_CHANGED_MAX } from "../../domain/economy/segments/members.ts";
import { PASSED_ON_MAX_BYTES } from "../../domain/evaluation/actions/action.ts";
import { ITEMS_MAX, TIERS_MAX as ADVENTURE_TIERS_MAX } from "../../domain/evaluation/adventures/adventure.ts";
import { PRIZES_MAX, SCORE_META_MAX_BYTES } from "../../domain/evaluation/boards/definition.ts";
import { BREAKDOWN_VALUE_MAX, BREAKDOWN_VALUES_MAX } from "../../domain/evaluation/boards/lists.ts";
import { FROZEN_COPIES_MAX, FROZEN_KEPT_MS, FROZEN_MAX } from "../../domain/evaluation/boards/ranks.ts";
import { BOOSTS_MAX } from "../../domain/evaluation/boosts/boosts.ts";
import { CAPS_MAX } from "../../domain/evaluation/caps/cap.ts";
import {
  CHANGE_STEPS_MAX,
  CHANGE_WRITTEN_MAX_BYTES,
  RULE_STEPS_MAX,
  WRITTEN_MAX_BYTES,
} from "../../domain/evaluation/event-cost.ts";
import { ACTIONS_MAX, TRIGGERS_MAX } from "../../domain/evaluation/language/document.ts";
import {
  EXPRESSION_MAX_DEPTH,
  EXPRESSION_MAX_NODES,
  NAMED_METRICS_MAX,
} from "../../domain/evaluation/language/expressions.ts";
import { TREE_MAX_DEPTH, TREE_MAX_LEAVES } from "../../domain/evaluation/language/trees.ts";
import { PAUSES_MAX } from "../../domain/evaluation/live.ts";
import {
  ATTRIBUTES_MAX_BYTES,
  ATTRIBUTES_MAX_DEPTH,
  ATTRIBUTES_MAX_KEYS,
  TAGS_MAX,
} from "../../domain/evaluation/profile.ts";
import { STEPS_MAX } from "../../domain/evaluation/quests/quest.ts";
import { BUNDLE_DEPTH_MAX, BUNDLE_SIZE_MAX } from "../../domain/evaluation/rewards/bundle.ts";
import { DEPTH_MAX, DERIVED_MAX } from "../../domain/evaluation/turn.ts";
import { XP_MAX } from "../../domain/evaluation/xp/xp.ts";
import { JSON_MAX_DEPTH } from "../../domain/kernel/hostile-json.ts";
import {
  BODY_LIMIT,
  BODY_NAMES_MAX,
  BODY_PARTS_MAX,
  COUNTERS_MAX,
  DEFINITION_MAX_BYTES,
  DOCUMENT_MAX_BYTES,
  DOCUMENT_PARTS_MAX,
  KEPT_MAX_BYTES,
  LARGE_BODY_PARTS_MAX,
  MATCHMAKE_BODY_LIMIT,
  PLAYER_SOCKETS_MAX,
  PLAYER_STATE_MAX_BYTES,
  PROBLEMS_MAX,
  PROJECT_MAX_BYTES,
  PROJECT_ROOMS_MAX,
  PUBLIC_BODY_LIMIT,
  RULE_MAX_BYTES,
  FUTURE_LIMIT_MS,
} from "../../domain/kernel/limits.ts";
import {
  PAGE_BYTES_MAX,
  PAGE_DEPTH_MAX,
  PAGE_LIMIT_DEFAULT,
  PAGE_LIMIT_MAX,
  UNINDEXED_DEPTH_MAX,
} from "../../domain/kernel/paging.ts";
import { SCOPE_EXAMINED_MAX } from "../../domain/leaderboards/board-list.ts";
import { BACKFILL_EVENTS_MAX } from "../../domain/leaderboards/fill.ts";
import { LEADERBOARDS_MAX, LEADERBOARDS_WITH_ARCHIVED_MAX } from "../../domain/leaderboards/leaderboards.ts";
import { FEED_MAX } from "../../domain/leaderboards/notices/send.ts";
import { SCORES_MAX } from "../../domain/leaderboards/record-scores.ts";
import { JOBS_MAX } from "../../domain/long-work/project-jobs.ts";
import { EXPORT_BYTES_MAX, EXPORT_ROWS_MAX } from "../../domain/player-lifecycle/erase.ts";
import { METADATA_MAX_BYTES } from "../../domain/players/profile.ts";
import { REQUEST_BYTES_MAX } from "../../domain/progression/load-states.ts";
import { IDENTITIES_MAX, UPSERT_MAX } from "../../domain/progression/players/players.ts";
import { DEFINITION_KINDS } from "../../domain/registries/definition-kinds.ts";
import { BULK_EVENT_IDS_MAX, BULK_EVENTS_MAX, REFUSED_MAX } from "../../domain/revert/bulk/bulk-revert.ts";
import { SENT_EVENTS_MAX } from "../../domain/revert/read-submitted.ts";
import { ACTIVE_RULES_MAX } from "../../domain/rules/lifecycle/publishing.ts";
import { RULES_MAX, RULES_WITH_ARCHIVED_MAX } from "../../domain/rules/rules.ts";
import {
  BATCH_MAX_BYTES,
  BATCH_MAX_EVENTS,
  PROPERTIES_MAX_BYTES,
} from "../../domain/tracking/event-input.ts";
import { SCHEMAS_MAX } from "../../domain/tracking/event-schemas.ts";
import { EVENT_TYPES_MAX } from "../../domain/tracking/event-type-recorder.ts";
import { CHECKS_MAX_MS, SCHEMA_MAX_BYTES, SCHEMA_MAX_PARTS } from "../../domain/tracking/json-schema.ts";
import { LONG_ITEM_CHARS, SHORT_REFUSALS_EXPLAINED } from "../item-refusals.ts";

export const Limit = z
  .object({
    name: z.string().meta({ example: "event.batch.events" }),
    value: z.number(),
    unit: z.enum(["bytes", "items", "levels", "ms", "requests", "steps"]),
    windowSeconds: z.int().optional().meta({ description: "Of a rate: how long a window lasts" }),
    appliesTo: z.string(),
  })
  .meta({ id: "Limit" });
export type Limit = z.infer<typeof Limit>;

/** Describes a limit as `GET /limits` shows it; `value` is the constant of the code that enforces it. */
export const limit = (name: string, value: number, unit: Limit["unit"], appliesTo: string): Limit => ({
  name,
  value,
  unit,
  appliesTo,
});

/** As `limit`, for a number per window. */
export const rate = ({ points, seconds, name }: Bucket, unit: Limit["unit"], appliesTo: string): Limit => ({
  ...limit(`rate.${name}`, points, unit, appliesTo),
  windowSeconds: seconds,
});

const HOUR = 3_600;

/** The limits of the service that neither a plan decides nor a rate is, in the order of the list. */
export const SERVICE_LIMITS: readonly Limit[] = [
  // Requests in general, rooms together, evaluation and pages.
  limit("request.body", BODY_LIMIT, "bytes", "the body of a request, unless another limit is named"),
  limit(
    "request.publicBody",
    PUBLIC_BODY_LIMIT,
    "bytes",
    "the same of an operation that is open to everyone",
  ),
  limit("request.body.parts", BODY_PARTS_MAX, "items", "names and values in the JSON of a body"),
  limit(
    "request.body.parts.large",
    LARGE_BODY_PARTS_MAX,
    "items",
    "names and values in a body that may have more bytes than request.body, but for configurations",
  ),
  limit("config.document", DOCUMENT_MAX_BYTES, "bytes", "the body of an import of a configuration"),
  limit("config.document.parts", DOCUMENT_PARTS_MAX, "items", "names and values in such a body"),
  limit("request.body.names", BODY_NAMES_MAX, "items", "names of one object in the JSON of a body"),
  limit("request.body.depth", JSON_MAX_DEPTH, "levels", "objects and arrays inside one another in a body"),
  limit("request.problems", PROBLEMS_MAX, "items", "problems of a request that one answer names"),
  limit("matchmaking.body", MATCHMAKE_BODY_LIMIT, "bytes", "the body of a matchmaking request"),
  limit("room.open", PROJECT_ROOMS_MAX, "items", "open rooms of a project"),
  limit("room.sockets", PLAYER_SOCKETS_MAX, "items", "sockets of one player over all rooms"),
  limit("evaluation.steps.rules", RULE_STEPS_MAX, "steps", "the rules that one event sets off, together"),
  limit("evaluation.written", WRITTEN_MAX_BYTES, "bytes", "what those rules write, and 1,000 for each row"),
  limit(
    "evaluation.steps.change",
    CHANGE_STEPS_MAX,
    "steps",
    "rules, for all players whom a request changes",
  ),
  limit(
    "evaluation.written.change",
    CHANGE_WRITTEN_MAX_BYTES,
    "bytes",
    "what rules write, for all players whom a request changes",
  ),
  limit("evaluation.derived", DERIVED_MAX, "items", "events that one event sets off"),
  limit("evaluation.depth", DEPTH_MAX, "levels", "events that set one another off in a row"),
  limit("list.limit.default", PAGE_LIMIT_DEFAULT, "items", "a page when `limit` is not given"),
  limit("list.limit", PAGE_LIMIT_MAX, "items", "a page"),
  limit("list.depth", PAGE_DEPTH_MAX, "items", "how far pages may reach"),
  limit(
    "list.depth.unindexed",
    UNINDEXED_DEPTH_MAX,
    "items",
    "how far pages of players may reach in another order than createdAt or externalUserId",
  ),
  limit(
    "list.bytes",
    PAGE_BYTES_MAX,
    "bytes",
    "a page of documents that may have 16 KiB or more; one is always shown",
  ),
  // Chat.
  limit("chat.channels", CHANNELS_MAX, "items", "channels of a project, without those of lobbies"),
  limit("chat.message.content", CONTENT_MAX, "items", "code points of a message; `maxLength` may be less"),
  limit("chat.message.mentions", MENTIONS_MAX, "items", "players whom a message mentions"),
  limit("chat.message.reactions", REACTIONS_MAX, "items", "different reactions to a message"),
  limit("chat.reaction", EMOJI_MAX, "items", "characters of a reaction"),
  limit("chat.wordLists", WORD_LISTS_MAX, "items", "word lists of a project"),
  limit("chat.wordList.words", LIST_WORDS_MAX, "items", "words of a list"),
  limit("chat.wordList.word", WORD_LENGTH_MAX, "items", "letters of a word"),
  limit("chat.sanctions", SANCTIONS_MAX, "items", "sanctions of a player that hold at one time"),
  limit("chat.report.note", REPORT_NOTE_MAX, "items", "characters of a report's note"),
  limit("chat.appeal", APPEAL_MAX, "items", "characters of an appeal"),
  rate(REPORTS_RATE, "items", "messages that a player reports"),
  // The rooms `lobby` and `lobbies`.
  limit("lobby.signal", SIGNAL_MAX_BYTES, "bytes", "the payload of a signal in room `lobby`, as JSON"),
  limit("lobby.signal.members", SIGNAL_TO_MAX, "items", "members that a signal names"),
  { ...limit("lobby.signals", SIGNALS_PER_SECOND_MAX, "items", "signals of one member"), windowSeconds: 1 },
  limit("lobby.requests", REQUESTS_WAITING_MAX, "requests", "requests that wait in one room `lobby`"),
  limit("lobby.sockets", LOBBY_SOCKETS_MAX, "items", "sockets and reserved seats of one room `lobby`"),
  limit("lobbies.shown", LOBBIES_SHOWN_MAX, "items", "lobbies that room `lobbies` shows"),
  limit("lobbies.filter", LOBBIES_FILTER_MAX_BYTES, "bytes", "the metadata that room `lobbies` looks for"),
  // Leaderboards.
  limit("leaderboards", LEADERBOARDS_MAX, "items", "leaderboards of a project that are not archived"),
  limit(
    "leaderboards.withArchived",
    LEADERBOARDS_WITH_ARCHIVED_MAX,
    "items",
    "leaderboards of a project, with archived ones",
  ),
  limit("leaderboard.breakdown.values", BREAKDOWN_VALUES_MAX, "items", "values of a breakdown in a period"),
  limit("leaderboard.breakdown.value", BREAKDOWN_VALUE_MAX, "items", "characters of such a value"),
  limit("leaderboard.prizes", PRIZES_MAX, "items", "prizes of a leaderboard"),
  limit("leaderboard.score.meta", SCORE_META_MAX_BYTES, "bytes", "the meta of a score, as JSON"),
  limit("leaderboard.scores.batch", SCORES_MAX, "items", "scores of one batch"),
  limit("leaderboard.backfill", BACKFILL_EVENTS_MAX, "items", "stored events that a new leaderboard counts"),
  limit("leaderboard.asOf.entries", FROZEN_MAX, "items", "places of a copy that asOf reads"),
  limit("leaderboard.asOf.copies", FROZEN_COPIES_MAX, "items", "copies of a project's boards at a time"),
  limit("leaderboard.asOf.kept", FROZEN_KEPT_MS, "ms", "how long such a copy is kept"),
  limit("leaderboard.scope.examined", SCOPE_EXAMINED_MAX, "items", "places looked at for a scope"),
  limit("leaderboard.feed", FEED_MAX, "items", "rank events kept of a leaderboard"),
  // Events.
  limit("event.batch.events", BATCH_MAX_EVENTS, "items", "events of one batch"),
  limit("event.batch.body", BATCH_MAX_BYTES, "bytes", "the body of a batch"),
  limit("event.properties", PROPERTIES_MAX_BYTES, "bytes", "the properties of one event as JSON"),
  limit("event.ahead", FUTURE_LIMIT_MS, "ms", "how far ahead of the server's clock an event may be"),
  limit("event.types", EVENT_TYPES_MAX, "items", "types of events that a project may have"),
  limit("event.schemas", SCHEMAS_MAX, "items", "event types of a project that may have a schema"),
  limit("event.schema", SCHEMA_MAX_BYTES, "bytes", "the schema of an event type, as JSON"),
  limit("event.schema.parts", SCHEMA_MAX_PARTS, "items", "schemas inside such a schema"),
  limit("event.schemas.request", CHECKS_MAX_MS, "ms", "the schemas of all events of one request"),
  limit(
    "batch.refusals.short",
    SHORT_REFUSALS_EXPLAINED,
    "items",
    `refused items of one batch, of fewer than ${LONG_ITEM_CHARS} characters, that are told why`,
  ),
  // Analytics.
  limit("analytics.export.columns", COLUMNS_MAX, "items", "columns of an export"),
  limit("analytics.export.files", EXPORTS_MAX, "items", "exports of a project that are made or kept"),
  limit("analytics.export.file", EXPORT_FILE_MAX_BYTES, "bytes", "the compressed file of an export"),
  limit(
    "analytics.breakdown.player",
    PLAYER_VALUES_MAX_BYTES,
    "bytes",
    "values of one player that a breakdown of a funnel or of retention reads",
  ),
  limit("analytics.list.segment", LIST_SEGMENT_MAX, "items", "players of a list that becomes a segment"),
  limit("analytics.reports", REPORTS_MAX, "items", "saved reports of a project"),
  limit("analytics.report.parameters", PARAMETERS_MAX_BYTES, "bytes", "the parameters of a saved report"),
  limit("analytics.report.runs", RUNS_KEPT, "items", "runs of a saved report that are kept"),
  limit("analytics.report.recipients", MAIL_TO_MAX, "items", "members who are told of a report's runs"),
  limit("analytics.export.kept", EXPORT_KEPT_MS, "ms", "how long a complete export can be downloaded"),
  // Players, and what they have.
  limit("player.batch.players", UPSERT_MAX, "items", "players of one batch"),
  limit("player.identities", IDENTITIES_MAX, "items", "ids of one player at other providers"),
  limit("player.attributes", ATTRIBUTES_MAX_BYTES, "bytes", "the attributes of a player, as JSON"),
  limit("player.attributes.names", ATTRIBUTES_MAX_KEYS, "items", "names of a player's attributes"),
  limit("player.attributes.depth", ATTRIBUTES_MAX_DEPTH, "levels", "objects inside one another in them"),
  limit("player.metadata", METADATA_MAX_BYTES, "bytes", "the metadata of a player, as JSON"),
  limit("player.tags", TAGS_MAX, "items", "tags of a player"),
  limit("player.xp", XP_MAX, "items", "XP of a player"),
  limit("player.boosts", BOOSTS_MAX, "items", "boosts of a player that have not expired"),
  limit("player.export.rows", EXPORT_ROWS_MAX, "items", "rows of one list in the export of a player"),
  limit("player.export", EXPORT_BYTES_MAX, "bytes", "the export of a player"),
  limit(
    "balance.lots",
    LOTS_MAX,
    "items",
    "times of expiry of a player's currency, by grants that name them",
  ),
  limit("balance.holds", HOLDS_MAX, "items", "holds of a player that are neither captured nor released"),
  limit("grant.bulk.players", BULK_PLAYERS_MAX, "items", "players that a bulk grant may name"),
  limit("reward.codes", FREE_CODES_MAX, "items", "codes of a reward that nobody has yet"),
  limit("reward.codes.batch", CODES_MAX, "items", "codes of one request"),
  limit("quest.step.codes", FREE_STEP_CODES_MAX, "items", "codes of a step's pool that nobody has used"),
  limit("quest.step.codes.batch", STEP_CODES_MAX, "items", "of these, codes of one request"),
  limit("segment.members.batch", MEMBERS_CHANGED_MAX, "items", "players that one request adds or removes"),
  limit("revert.sent", SENT_EVENTS_MAX, "items", "events that an event to be reverted may have sent"),
  limit("revert.bulk.ids", BULK_EVENT_IDS_MAX, "items", "events that a bulk revert may name"),
  limit("revert.bulk.events", BULK_EVENTS_MAX, "items", "events that a bulk revert may match"),
  limit("revert.bulk.refused", REFUSED_MAX, "items", "events that a bulk revert may leave as they are"),
  limit("job.open", JOBS_MAX, "items", "jobs of a project that wait or run"),
  // Lobbies.
  limit("lobby.open", OPEN_LOBBIES_MAX, "items", "lobbies of a project that are not closed"),
  limit("lobby.players", LOBBY_PLAYERS_MAX, "items", "players of one lobby"),
  limit("lobby.spectators", SPECTATORS_MAX, "items", "spectators of one lobby"),
  limit("lobby.data", LOBBY_DATA_MAX_BYTES, "bytes", "metadata, and privateData, of one lobby as JSON"),
  limit("lobby.member.data", MEMBER_DATA_MAX_BYTES, "bytes", "data of one member, and stats of one result"),
  limit("lobby.invites", INVITES_OPEN_MAX, "items", "invitations of one lobby that nobody has answered"),
  limit("lobby.invites.batch", INVITES_AT_ONCE, "items", "players that one request invites"),
  limit("lobby.invite.kept", INVITE_MS, "ms", "how long an invitation can be accepted"),
  limit("lobby.heartbeat", HEARTBEAT_MS, "ms", "how long a heartbeat keeps a member present"),
  limit("lobby.waits", LOBBY_LIFE_MS, "ms", "how long an open lobby waits for a game"),
  limit("lobby.kept", CLOSED_KEPT_MS, "ms", "how long a closed lobby can be read"),
  // Rules and definitions, and what they keep of players.
  limit("rules", RULES_MAX, "items", "rules of a project that are not archived"),
  limit("rules.withArchived", RULES_WITH_ARCHIVED_MAX, "items", "rules of a project, with archived ones"),
  limit("rules.active", ACTIVE_RULES_MAX, "items", "rules of a project that are ACTIVE or in SHADOW"),
  limit("rule.triggers", TRIGGERS_MAX, "items", "triggers of a rule"),
  limit("rule.conditions", TREE_MAX_LEAVES, "items", "conditions of a rule, in all of its groups"),
  limit("rule.conditions.depth", TREE_MAX_DEPTH, "levels", "groups of conditions inside one another"),
  limit("rule.actions", ACTIONS_MAX, "items", "actions of a rule"),
  limit("rule.metrics", NAMED_METRICS_MAX, "items", "metrics that a rule names for its expressions"),
  limit("rule.caps", CAPS_MAX, "items", "caps of a rule, and of a project"),
  limit("rule.action.passed", PASSED_ON_MAX_BYTES, "bytes", "what an action passes on, as JSON"),
  limit("rule.expression.parts", EXPRESSION_MAX_NODES, "items", "parts of an expression"),
  limit("rule.expression.depth", EXPRESSION_MAX_DEPTH, "levels", "parts of an expression inside one another"),
  limit("rule.document", RULE_MAX_BYTES, "bytes", "a rule as JSON, with its defaults and the ids of actions"),
  limit("definition.document", DEFINITION_MAX_BYTES, "bytes", "a definition or leaderboard as JSON"),
  limit("quest.steps", STEPS_MAX, "items", "steps of a quest"),
  limit("definition.pauses", PAUSES_MAX, "items", "pauses of a quest or an adventure that reverts know"),
  limit("adventure.items", ITEMS_MAX, "items", "quests of an adventure"),
  limit("adventure.tiers", ADVENTURE_TIERS_MAX, "items", "tiers of an adventure"),
  limit("bundle.depth", BUNDLE_DEPTH_MAX, "levels", "bundles inside one another"),
  limit("bundle.bundles", BUNDLE_SIZE_MAX, "items", "bundles that one bundle gives, those inside it too"),
  limit(
    "project.definitions",
    PROJECT_MAX_BYTES,
    "bytes",
    "active rules, definitions and leaderboards of a project together, as JSON",
  ),
  limit(
    "project.kept",
    KEPT_MAX_BYTES,
    "bytes",
    "all that, paused rules and drafts together, as JSON: what an export has",
  ),
  limit(
    "project.counters",
    COUNTERS_MAX,
    "items",
    "different metrics that active rules, badges and segments of a project read together",
  ),
  limit(
    "player.state",
    PLAYER_STATE_MAX_BYTES,
    "bytes",
    "counters of a player, and what limits of rules have counted, together as JSON",
  ),
  limit(
    "player.states.changed",
    REQUEST_BYTES_MAX,
    "bytes",
    "of these, of all players whom a request changes",
  ),
  ...DEFINITION_KINDS.map(({ plural, max }) =>
    limit(`definition.${plural}`, max, "items", `${plural} of a project, without archived ones`),
  ),
  ...DEFINITION_KINDS.map(({ plural, max }) =>
    limit(
      `definition.${plural}.withArchived`,
      max * ARCHIVED_FACTOR,
      "items",
      `${plural} of a project, with archived ones`,
    ),
  ),
  // Accounts, but for what a plan decides.
  limit("tenant.projects", PROJECTS_PER_TENANT_MAX, "items", "projects of a tenant, whatever its plan"),
  limit("project.keys", WORKING_KEYS_MAX, "items", "API keys of a project that work, replaced ones included"),
  limit("project.key.metadata", KEY_METADATA_MAX_BYTES, "bytes", "the metadata of an API key, as JSON"),
  limit("account.passkeys", PASSKEYS_MAX, "items", "passkeys of a user or super-admin"),
  limit("user.sessions", SESSIONS_PER_USER_MAX, "items", "sessions of a user; the oldest end"),
  // Custom domains, besides those of plans.
  limit("domains", CUSTOM_DOMAINS_MAX, "items", "custom domains of a tenant, whatever its plan"),
  {
    ...limit("domains.orders.name", ORDERS_PER_NAME, "items", "certificates ordered for one name"),
    windowSeconds: HOUR,
  },
  {
    ...limit("domains.orders.tenant", ORDERS_PER_TENANT, "items", "certificates ordered for one tenant"),
    windowSeconds: 24 * HOUR,
  },
  {
    ...limit(
      "domains.orders.first",
      FIRST_ORDERS_OF_ALL,
      "items",
      "first certificates ordered by this server",
    ),
    windowSeconds: 3 * HOUR,
  },
  {
    ...limit("domains.orders", ORDERS_OF_ALL, "items", "certificates ordered by this server"),
    windowSeconds: 3 * HOUR,
  },
];
