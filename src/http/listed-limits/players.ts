import { KEY_METADATA_MAX_BYTES, WORKING_KEYS_MAX } from "../../domain/accounts/api-keys/checks.ts";
import { PASSKEYS_MAX } from "../../domain/accounts/mfa/passkeys.ts";
import { SESSIONS_PER_USER_MAX } from "../../domain/accounts/auth/sessions.ts";
import { PROJECTS_PER_TENANT_MAX } from "../../domain/accounts/projects/projects.ts";
import { LOTS_MAX } from "../../domain/economy/currencies/balances.ts";
import { HOLDS_MAX } from "../../domain/economy/currencies/holds.ts";
import { FREE_STEP_CODES_MAX, STEP_CODES_MAX } from "../../domain/economy/quests/codes.ts";
import { CODES_MAX, FREE_CODES_MAX } from "../../domain/economy/rewards/codes.ts";
import { BULK_PLAYERS_MAX } from "../../domain/economy/rewards/start-bulk-grant.ts";
import { MEMBERS_CHANGED_MAX } from "../../domain/economy/segments/members.ts";
import { BOOSTS_MAX } from "../../domain/evaluation/boosts/boosts.ts";
import {
  ATTRIBUTES_MAX_BYTES,
  ATTRIBUTES_MAX_DEPTH,
  ATTRIBUTES_MAX_KEYS,
  TAGS_MAX,
} from "../../domain/evaluation/profile.ts";
import { XP_MAX } from "../../domain/evaluation/xp/xp.ts";
import { JOBS_MAX } from "../../domain/long-work/project-jobs.ts";
import { EXPORT_BYTES_MAX, EXPORT_ROWS_MAX } from "../../domain/player-lifecycle/export.ts";
import { METADATA_MAX_BYTES } from "../../domain/players/profile.ts";
import { IDENTITIES_MAX } from "../../domain/progression/players/identities.ts";
import { UPSERT_MAX } from "../../domain/progression/players/upsert.ts";
import { BULK_EVENTS_MAX } from "../../domain/revert/bulk/bulk-revert.ts";
import { REFUSED_MAX } from "../../domain/revert/bulk/revert-next.ts";
import { BULK_EVENT_IDS_MAX } from "../../domain/revert/bulk/start-bulk-revert.ts";
import { SENT_EVENTS_MAX } from "../../domain/revert/read-events.ts";
import { type Limit, limit } from "./limit.ts";

/** Limits of the numbers that a plan does not decide. */
export const ACCOUNT_LIMITS: readonly Limit[] = [
  limit("tenant.projects", PROJECTS_PER_TENANT_MAX, "items", "projects of a tenant, whatever its plan"),
  limit("project.keys", WORKING_KEYS_MAX, "items", "API keys of a project that work, replaced ones included"),
  limit("project.key.metadata", KEY_METADATA_MAX_BYTES, "bytes", "the metadata of an API key, as JSON"),
  limit("account.passkeys", PASSKEYS_MAX, "items", "passkeys of a user or super-admin"),
  limit("user.sessions", SESSIONS_PER_USER_MAX, "items", "sessions of a user; the oldest end"),
];

export const PLAYER_LIMITS: readonly Limit[] = [
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
];
