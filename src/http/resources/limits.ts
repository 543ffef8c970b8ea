import { z } from "zod";
import { CHANNELS_MAX } from "../../domain/social/chat/manage-channels.ts";
import { MENTIONS_MAX } from "../../domain/social/chat/mentions.ts";
import { REPORT_NOTE_MAX, REPORTS_RATE } from "../../domain/social/chat/moderation/report-message.ts";
import { APPEAL_MAX, SANCTIONS_MAX } from "../../domain/social/chat/moderation/sanction-changes.ts";
import { WORD_LENGTH_MAX } from "../../domain/social/chat/moderation/word-filter.ts";
import { LIST_WORDS_MAX, WORD_LISTS_MAX } from "../../domain/social/chat/moderation/word-lists.ts";
import { REACTIONS_MAX } from "../../domain/social/chat/react.ts";
import { CONTENT_MAX } from "../../domain/social/chat/settings.ts";
import { EMOJI_MAX } from "../../domain/social/chat/text.ts";
import { LOTS_MAX } from "../../domain/economy/currencies/balances.ts";
import { DEFINITION_KINDS } from "../../domain/registries/definition-kinds.ts";
import { PRIZES_MAX } from "../../domain/evaluation/boards/definition-parts.ts";
import { LEADERBOARDS_MAX } from "../../domain/leaderboards/leaderboards.ts";
import { BREAKDOWN_VALUE_MAX, BREAKDOWN_VALUES_MAX } from "../../domain/evaluation/boards/lists.ts";
import { FEED_MAX } from "../../domain/leaderboards/notices/feed.ts";
import { SCORES_MAX } from "../../domain/leaderboards/record-scores.ts";
import { SCORE_META_MAX_BYTES } from "../../domain/evaluation/boards/score-meta.ts";
import { FROZEN_COPIES_MAX, FROZEN_KEPT_MS, FROZEN_MAX } from "../../domain/evaluation/boards/ranks.ts";
import { SCOPE_EXAMINED_MAX } from "../../domain/leaderboards/segment-places.ts";
import {
  INVITES_AT_ONCE,
  INVITES_OPEN_MAX,
  LOBBY_DATA_MAX_BYTES,
  LOBBY_PLAYERS_MAX,
  MEMBER_DATA_MAX_BYTES,
  OPEN_LOBBIES_MAX,
  SPECTATORS_MAX,
} from "../../domain/social/lobbies/limits.ts";
import {
  BODY_LIMIT,
  BODY_NAMES_MAX,
  BODY_PARTS_MAX,
  COUNTERS_MAX,
  DEFINITION_MAX_BYTES,
  LARGE_BODY_PARTS_MAX,
  MATCHMAKE_BODY_LIMIT,
  PLAYER_SOCKETS_MAX,
  PLAYER_STATE_MAX_BYTES,
  PROJECT_MAX_BYTES,
  PROJECT_ROOMS_MAX,
  RULE_MAX_BYTES,
} from "../../domain/kernel/limits.ts";
import {
  LOBBIES_FILTER_MAX_BYTES,
  LOBBIES_SHOWN_MAX,
  REQUESTS_WAITING_MAX,
  SIGNAL_MAX_BYTES,
  SIGNALS_PER_SECOND_MAX,
} from "../../domain/social/lobbies/room-limits.ts";
import {
  CHANGE_STEPS_MAX,
  CHANGE_WRITTEN_STEPS_MAX,
  EXPLAIN_STEPS_MAX,
  RULE_STEPS_MAX,
  UPKEEP_STEPS_MAX,
  WRITTEN_STEPS_MAX,
} from "../../domain/evaluation/event-accounts.ts";
import { REQUEST_BYTES_MAX } from "../../domain/progression/load-states.ts";
import { PAGE_DEPTH_MAX, PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from "../../domain/kernel/paging.ts";
import { IDENTITIES_MAX } from "../../domain/progression/players/identities.ts";
import { UPSERT_MAX } from "../../domain/progression/players/upsert.ts";
import { JOBS_MAX } from "../../domain/long-work/project-jobs.ts";
import type { Bucket } from "../../domain/accounts/rate-limits/limiter.ts";
import { LIMITS as RATES } from "../../domain/accounts/rate-limits/limits.ts";
import { BULK_PLAYERS_MAX } from "../../domain/economy/rewards/start-bulk-grant.ts";
import { PLAN_LIMITS, type PlanLimits, type Plan, PLANS } from "../../domain/kernel/plans.ts";
import {
  BATCH_MAX_BYTES,
  BATCH_MAX_EVENTS,
  FUTURE_LIMIT_MS,
  PROPERTIES_MAX_BYTES,
} from "../../domain/tracking/event-input.ts";
import { JSON_MAX_DEPTH } from "../../domain/kernel/hostile-json.ts";
import { EVENT_TYPES_MAX } from "../../domain/tracking/event-type-recorder.ts";
import { SCHEMAS_MAX } from "../../domain/tracking/event-types.ts";
import { LONG_ITEM_CHARS, SHORT_REFUSALS_EXPLAINED } from "../item-refusals.ts";
import { route } from "../route.ts";

const Limit = z
  .object({
    name: z.string().meta({ example: "event.batch.events" }),
    value: z.number(),
    unit: z.enum(["bytes", "items", "levels", "ms", "requests", "steps"]),
    windowSeconds: z.int().optional().meta({ description: "Of a rate: how long a window lasts" }),
    appliesTo: z.string(),
  })
  .meta({ id: "Limit" });
type Limit = z.infer<typeof Limit>;

const limit = (name: string, value: number, unit: Limit["unit"], appliesTo: string): Limit => ({
  name,
  value,
  unit,
  appliesTo,
});

const rate = ({ points, seconds, name }: Bucket, unit: Limit["unit"], appliesTo: string): Limit => ({
  ...limit(`rate.${name}`, points, unit, appliesTo),
  windowSeconds: seconds,
});

/** Numeric limits of a plan; a missing one means unlimited. */
const PLAN_TEXTS: Readonly<Record<keyof PlanLimits, string>> = {
  requestsPerMinute: "requests by all API keys of a project in a minute",
  projects: "projects of the tenant; sandboxes do not count",
  members: "members of the tenant and pending invitations",
  activeKeysPerProject: "active API keys of a project",
  webhooks: "webhooks of the tenant",
  customDomains: "custom domains of the tenant",
  analyticsHistoryDays: "days that analytics reach back",
  deliveryLogDays: "days that deliveries of webhooks are kept",
};

const planLimits = (plan: Plan): Limit[] =>
  Object.entries(PLAN_TEXTS).flatMap(([name, text]) => {
    const value = PLAN_LIMITS[plan][name as keyof PlanLimits];
    if (value === null) return [];
    const appliesTo = `plan ${plan}: ${text}`;
    if (name !== "requestsPerMinute") return [limit(`plan.${plan}.${name}`, value, "items", appliesTo)];
    return [{ ...limit(`plan.${plan}.${name}`, value, "requests", appliesTo), windowSeconds: 60 }];
  });

/** The limits that apply to callers, as stated by the code that enforces them. */
export const LIMITS: readonly Limit[] = [
  limit("request.body", BODY_LIMIT, "bytes", "the body of a request, unless another limit is named"),
  limit("request.body.parts", BODY_PARTS_MAX, "items", "names and values in the JSON of a body"),
  limit(
    "request.body.parts.large",
    LARGE_BODY_PARTS_MAX,
    "items",
    "names and values in a body that may have more bytes than request.body",
  ),
  limit("request.body.names", BODY_NAMES_MAX, "items", "names of one object in the JSON of a body"),
  limit("request.body.depth", JSON_MAX_DEPTH, "levels", "objects and arrays inside one another in a body"),
  limit("matchmaking.body", MATCHMAKE_BODY_LIMIT, "bytes", "the body of a matchmaking request"),
  limit("room.open", PROJECT_ROOMS_MAX, "items", "open rooms of a project"),
  limit("room.sockets", PLAYER_SOCKETS_MAX, "items", "sockets of one player over all rooms"),
  limit("evaluation.steps.rules", RULE_STEPS_MAX, "steps", "the rules that one event sets off, together"),
  limit(
    "evaluation.steps.upkeep",
    UPKEEP_STEPS_MAX,
    "steps",
    "what counts one event, such as boards, together",
  ),
  limit("evaluation.steps.explaining", EXPLAIN_STEPS_MAX, "steps", "showing what those rules saw"),
  limit("evaluation.steps.written", WRITTEN_STEPS_MAX, "steps", "what those rules write"),
  limit(
    "evaluation.steps.change",
    CHANGE_STEPS_MAX,
    "steps",
    "rules, for all players whom a request changes",
  ),
  limit(
    "evaluation.steps.change.written",
    CHANGE_WRITTEN_STEPS_MAX,
    "steps",
    "what rules write, for all players whom a request changes",
  ),
  limit("list.limit.default", PAGE_LIMIT_DEFAULT, "items", "a page when `limit` is not given"),
  limit("list.limit", PAGE_LIMIT_MAX, "items", "a page"),
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
  limit("lobby.signal", SIGNAL_MAX_BYTES, "bytes", "the payload of a signal in room `lobby`, as JSON"),
  { ...limit("lobby.signals", SIGNALS_PER_SECOND_MAX, "items", "signals of one member"), windowSeconds: 1 },
  limit("lobby.requests", REQUESTS_WAITING_MAX, "requests", "requests that wait in one room `lobby`"),
  limit("lobbies.shown", LOBBIES_SHOWN_MAX, "items", "lobbies that room `lobbies` shows"),
  limit("lobbies.filter", LOBBIES_FILTER_MAX_BYTES, "bytes", "the metadata that room `lobbies` looks for"),
  limit("leaderboards", LEADERBOARDS_MAX, "items", "leaderboards of a project that are not archived"),
  limit("leaderboard.breakdown.values", BREAKDOWN_VALUES_MAX, "items", "values of a breakdown in a period"),
  limit("leaderboard.breakdown.value", BREAKDOWN_VALUE_MAX, "items", "characters of such a value"),
  limit("leaderboard.prizes", PRIZES_MAX, "items", "prizes of a leaderboard"),
  limit("leaderboard.score.meta", SCORE_META_MAX_BYTES, "bytes", "the meta of a score, as JSON"),
  limit("leaderboard.scores.batch", SCORES_MAX, "items", "scores of one batch"),
  limit("leaderboard.asOf.entries", FROZEN_MAX, "items", "places of a copy that asOf reads"),
  limit("leaderboard.asOf.copies", FROZEN_COPIES_MAX, "items", "copies of a project's boards at a time"),
  limit("leaderboard.asOf.kept", FROZEN_KEPT_MS, "ms", "how long such a copy is kept"),
  limit("leaderboard.scope.examined", SCOPE_EXAMINED_MAX, "items", "places looked at for a scope"),
  limit("leaderboard.feed", FEED_MAX, "items", "rank events kept of a leaderboard"),
  limit("list.depth", PAGE_DEPTH_MAX, "items", "how far pages may reach"),
  limit("event.batch.events", BATCH_MAX_EVENTS, "items", "events of one batch"),
  limit("event.batch.body", BATCH_MAX_BYTES, "bytes", "the body of a batch"),
  limit("event.properties", PROPERTIES_MAX_BYTES, "bytes", "the properties of one event as JSON"),
  limit("event.ahead", FUTURE_LIMIT_MS, "ms", "how far ahead of the server's clock an event may be"),
  limit("event.types", EVENT_TYPES_MAX, "items", "types of events that a project may have"),
  limit("event.schemas", SCHEMAS_MAX, "items", "event types of a project that may have a schema"),
  limit(
    "batch.refusals.short",
    SHORT_REFUSALS_EXPLAINED,
    "items",
    `refused items of one batch, of fewer than ${LONG_ITEM_CHARS} characters, that are told why`,
  ),
  limit("player.batch.players", UPSERT_MAX, "items", "players of one batch"),
  limit("player.identities", IDENTITIES_MAX, "items", "ids of one player at other providers"),
  limit(
    "balance.lots",
    LOTS_MAX,
    "items",
    "times of expiry of a player's currency, by grants that name them",
  ),
  limit("grant.bulk.players", BULK_PLAYERS_MAX, "items", "players that a bulk grant may name"),
  limit("job.open", JOBS_MAX, "items", "jobs of a project that wait or run"),
  limit("lobby.open", OPEN_LOBBIES_MAX, "items", "lobbies of a project that are not closed"),
  limit("lobby.players", LOBBY_PLAYERS_MAX, "items", "players of one lobby"),
  limit("lobby.spectators", SPECTATORS_MAX, "items", "spectators of one lobby"),
  limit("lobby.data", LOBBY_DATA_MAX_BYTES, "bytes", "metadata, and privateData, of one lobby as JSON"),
  limit("lobby.member.data", MEMBER_DATA_MAX_BYTES, "bytes", "data of one member, and stats of one result"),
  limit("lobby.invites", INVITES_OPEN_MAX, "items", "invitations of one lobby that nobody has answered"),
  limit("lobby.invites.batch", INVITES_AT_ONCE, "items", "players that one request invites"),
  limit("rule.document", RULE_MAX_BYTES, "bytes", "a rule as JSON, with its defaults and the ids of actions"),
  limit("definition.document", DEFINITION_MAX_BYTES, "bytes", "a definition or leaderboard as JSON"),
  limit(
    "project.definitions",
    PROJECT_MAX_BYTES,
    "bytes",
    "active rules, definitions and leaderboards of a project together, as JSON",
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
  rate(RATES.anonymous, "requests", "requests of one address without credentials, or with refused ones"),
  rate(RATES.user, "requests", "requests of one console user"),
  rate(RATES.admin, "requests", "requests of one super-admin"),
  rate(RATES.registration, "requests", "registrations from one address"),
  rate(RATES.verifyEmail, "requests", "proofs of an email address from one address"),
  rate(RATES.addressChange, "requests", "wishes of one user for another email address"),
  rate(RATES.refresh, "requests", "renewals of one session"),
  rate(RATES.wsToken, "requests", "tokens for the rooms of one player"),
  rate(RATES.lobbyPasscode, "requests", "passcodes that one player tries at one lobby"),
  rate(RATES.badKeys, "requests", "unknown API keys from one address, which is then blocked for a while"),
  rate(RATES.loginFailures, "requests", "failed logins from one address, which is then blocked for a while"),
  rate(RATES.mailMinute, "items", "mails of one kind to one recipient"),
  rate(RATES.mailDay, "items", "mails of one kind to one recipient"),
  rate(RATES.mailHalfHour, "items", "mails to one recipient beyond those of the day, but for invitations"),
  rate(RATES.mailTenant, "items", "mails that one tenant's people ask for"),
  ...PLANS.flatMap(planLimits),
];

export const limitRoutes = [
  route({
    method: "get",
    path: "/limits",
    id: "listLimits",
    tag: "Limits",
    summary: "List the limits of the service",
    access: "public",
    project: "none",
    response: z.object({ data: z.array(Limit) }),
    run: async () => ({ data: [...LIMITS] }),
  }),
];
