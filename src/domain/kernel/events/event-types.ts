import { type RawBuilder, sql } from "kysely";
import type { EventType } from "./domain-events.ts";

/** A feed that has not been read for this long is no longer written until it is read again. */
const FEED_UNREAD_DAYS = 30;

const DAY_MS = 86_400_000;

/** Returns the moment since which a feed must have been read to be written. */
export const feedReadSince = (now: Date): Date => new Date(now.getTime() - FEED_UNREAD_DAYS * DAY_MS);

/** Subscriptions that cover a type which `*` does not. */
const patternsOf = (type: EventType): string[] => {
  const names = type.split(".");
  return [type, ...names.slice(1).map((_, n) => `${names.slice(0, n + 1).join(".")}.*`)];
};

/**
 * SQL: whether a webhook subscribes to a type that `*` does not cover, or the project's feed is read. Where
 * it is not, nobody but rooms waits for such an event. A transaction that does not see the project's tenant,
 * and so not its webhooks, finds that somebody may wait.
 */
export const isAwaited = (projectId: string, type: EventType, now: Date): RawBuilder<unknown> => sql`
  coalesce((
    select exists (
        select from webhook_feeds f where f.project_id = p.id
          and f.read_at > ${feedReadSince(now).toISOString()}::timestamptz)
      or exists (
        select from webhooks w
        where w.tenant_id = t.id and w.deleted_at is null and w.status <> 'DISABLED'
          and (w.project_id = p.id or (w.project_id is null and p.sandbox_of is null))
          and w.events && ${`{${patternsOf(type).join(",")}}`}::text[])
    from projects p join tenants t on t.id = p.tenant_id where p.id = ${projectId}), true)`;

/** How the server handles events of one of its own types. */
type TypeFacts = {
  /**
   * How rules and metrics receive it. DERIVED: while the event that caused it is evaluated; TRACKED: as an
   * event that the server tracks itself; null: not at all.
   */
  triggers: "DERIVED" | "TRACKED" | null;
  /**
   * Whether it is sent to webhooks. NOISY: not to those that subscribe to `*`; NEVER: it only notifies rooms
   * and indexes, or one player's client.
   */
  webhooks: "SENT" | "NOISY" | "NEVER";
};

/** Types reserved for features that this version does not have. */
type PlannedType = "leaderboard.league_moved" | "raffle.drawn";

const DERIVED: TypeFacts = { triggers: "DERIVED", webhooks: "SENT" };
const SENT: TypeFacts = { triggers: null, webhooks: "SENT" };
const NOISY: TypeFacts = { triggers: null, webhooks: "NOISY" };
const INTERNAL: TypeFacts = { triggers: null, webhooks: "NEVER" };

/** All event types of the server. A type added to `Events` must be added here. */
const OWN_TYPES: Readonly<Record<EventType | PlannedType | "lobby.result", TypeFacts>> = {
  "player.created": DERIVED,
  "player.updated": { triggers: "DERIVED", webhooks: "NOISY" },
  "player.xp_granted": DERIVED,
  "player.level_up": DERIVED,
  "player.currency_granted": DERIVED,
  "player.currency_spent": DERIVED,
  "player.currency_expired": DERIVED,
  "player.lives_changed": DERIVED,
  "player.badge_earned": DERIVED,
  "player.badge_revoked": DERIVED,
  "player.streak_extended": DERIVED,
  "player.streak_at_risk": DERIVED,
  "player.streak_frozen": DERIVED,
  "player.streak_broken": DERIVED,
  "player.streak_repaired": DERIVED,
  "player.segment_entered": DERIVED,
  "player.segment_left": DERIVED,
  "player.boost_started": DERIVED,
  "player.boost_ended": DERIVED,
  "player.reward_granted": DERIVED,
  "player.merged": DERIVED,
  "player.erased": SENT,
  "quest.started": DERIVED,
  "quest.progress": NOISY,
  "quest.completed": DERIVED,
  "quest.step_completed": DERIVED,
  "quest.claimed": DERIVED,
  "quest.expired": DERIVED,
  "quest.failed": DERIVED,
  "quest.approval_requested": SENT,
  "quest.submission_approved": SENT,
  "quest.submission_rejected": SENT,
  "adventure.started": DERIVED,
  "adventure.completed": DERIVED,
  "adventure.quest_unlocked": DERIVED,
  "adventure.tier_reached": DERIVED,
  "adventure.claimed": DERIVED,
  "leaderboard.rank_changed": SENT,
  "leaderboard.new_leader": SENT,
  "leaderboard.period_started": SENT,
  "leaderboard.period_closed": SENT,
  "leaderboard.values_ranked": SENT,
  "leaderboard.league_moved": SENT,
  "leaderboard.score_held": SENT,
  "leaderboard.entries_changed": INTERNAL,
  "leaderboard.changed": INTERNAL,
  "lobby.created": SENT,
  "lobby.started": SENT,
  "lobby.ended": SENT,
  "lobby.game_finished": SENT,
  "lobby.member_joined": NOISY,
  "lobby.member_left": NOISY,
  "lobby.host_changed": SENT,
  "lobby.result": { triggers: "TRACKED", webhooks: "NEVER" },
  "lobby.changed": INTERNAL,
  "chat.message_sent": NOISY,
  "chat.message_reported": SENT,
  "chat.message_moderated": SENT,
  "chat.player_sanctioned": SENT,
  "chat.changed": INTERNAL,
  "raffle.drawn": SENT,
  "rule.loop_detected": SENT,
  "rule.budget_exhausted": SENT,
  "report.ready": SENT,
  "report.failed": SENT,
  "event.failed": SENT,
  "event.reverted": SENT,
  "event.steps_exhausted": SENT,
  "event.uncounted": SENT,
  "quest.updated": INTERNAL,
  "adventure.updated": INTERNAL,
  "inbox.message": INTERNAL,
  "player.notice": INTERNAL,
};

const typesWhere = (is: (facts: TypeFacts) => boolean): ReadonlySet<string> =>
  new Set(
    Object.entries(OWN_TYPES)
      .filter(([, facts]) => is(facts))
      .map(([type]) => type),
  );

/** Types that integrators may not send as tracked events. */
export const RESERVED_EVENT_TYPES: ReadonlySet<string> = typesWhere(() => true);

/** Events of a player that can trigger rules: `event.properties` is then the event's data. */
export const DERIVED_EVENT_TYPES: ReadonlySet<string> = typesWhere(({ triggers }) => triggers === "DERIVED");

/** Events of the service that are tracked like those of integrators, and trigger rules. */
export const TRACKED_OWN_TYPES: ReadonlySet<string> = typesWhere(({ triggers }) => triggers === "TRACKED");

/** Server event types that can be sent to webhooks. */
export const SENT_EVENT_TYPES: ReadonlySet<string> = typesWhere(({ webhooks }) => webhooks !== "NEVER");

/** High-volume types that `*` leaves out: they must be subscribed to by name. */
export const NOISY_TYPES: ReadonlySet<string> = typesWhere(({ webhooks }) => webhooks === "NOISY");

/** Returns whether integrators are barred from sending events of this type. */
export const isReservedType = (type: string): boolean =>
  type.startsWith("system.") || RESERVED_EVENT_TYPES.has(type);

/** Returns whether rules and metrics can refer to events of this type. */
export const canTriggerRules = (type: string): boolean =>
  !isReservedType(type) || DERIVED_EVENT_TYPES.has(type) || TRACKED_OWN_TYPES.has(type);
