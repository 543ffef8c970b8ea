import type { EventType } from "./domain-events.ts";

/** What the server does with events of a type of its own. */
type TypeFacts = {
  /**
   * How rules and metrics hear it. DERIVED: in the pass of the event that brought it about; TRACKED: as an
   * event that the server itself tracks; null: not at all.
   */
  heard: "DERIVED" | "TRACKED" | null;
  /**
   * Whether webhooks are sent it. NOISY: not to those that subscribe to `*`; NEVER: it wakes rooms and
   * indexes, or is for one player's screen.
   */
  webhooks: "SENT" | "NOISY" | "NEVER";
};

/** Types that are reserved for what this version does not do. */
type PlannedType =
  | `quest.${"started" | "progress" | "completed" | "step_completed" | "claimed" | "expired" | "failed"}`
  | "quest.approval_requested"
  | `adventure.${"started" | "completed" | "quest_unlocked" | "tier_reached" | "claimed"}`
  | "leaderboard.league_moved"
  | "raffle.drawn";

const DERIVED: TypeFacts = { heard: "DERIVED", webhooks: "SENT" };
const SENT: TypeFacts = { heard: null, webhooks: "SENT" };
const NOISY: TypeFacts = { heard: null, webhooks: "NOISY" };
const INTERNAL: TypeFacts = { heard: null, webhooks: "NEVER" };

/** Every type of event of the server's own. One that is added to `Events` has to be added here. */
const OWN_TYPES: Readonly<Record<EventType | PlannedType | "lobby.result", TypeFacts>> = {
  "player.created": DERIVED,
  "player.updated": { heard: "DERIVED", webhooks: "NOISY" },
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
  "quest.started": SENT,
  "quest.progress": NOISY,
  "quest.completed": SENT,
  "quest.step_completed": SENT,
  "quest.claimed": SENT,
  "quest.expired": SENT,
  "quest.failed": SENT,
  "quest.approval_requested": SENT,
  "adventure.started": SENT,
  "adventure.completed": SENT,
  "adventure.quest_unlocked": SENT,
  "adventure.tier_reached": SENT,
  "adventure.claimed": SENT,
  "leaderboard.rank_changed": SENT,
  "leaderboard.new_leader": SENT,
  "leaderboard.period_started": SENT,
  "leaderboard.period_closed": SENT,
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
  "lobby.result": { heard: "TRACKED", webhooks: "NEVER" },
  "lobby.changed": INTERNAL,
  "chat.message_sent": NOISY,
  "chat.message_reported": SENT,
  "chat.message_moderated": SENT,
  "chat.player_sanctioned": SENT,
  "chat.changed": INTERNAL,
  "raffle.drawn": SENT,
  "rule.loop_detected": SENT,
  "rule.budget_exhausted": SENT,
  "event.failed": SENT,
  "event.reverted": SENT,
  "event.steps_exhausted": SENT,
  "event.uncounted": SENT,
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

/** What happens to a player and can set off rules: `event.properties` is then the event's data. */
export const DERIVED_EVENT_TYPES: ReadonlySet<string> = typesWhere(({ heard }) => heard === "DERIVED");

/** Events of the service's own that are tracked as those of integrators are, and that rules hear. */
export const TRACKED_OWN_TYPES: ReadonlySet<string> = typesWhere(({ heard }) => heard === "TRACKED");

/** Types of the server's own that webhooks can be sent. */
export const SENT_EVENT_TYPES: ReadonlySet<string> = typesWhere(({ webhooks }) => webhooks !== "NEVER");

/** Too many for who just wants everything: `*` leaves them out, and they are to be named. */
export const NOISY_TYPES: ReadonlySet<string> = typesWhere(({ webhooks }) => webhooks === "NOISY");

/** Whether integrators may send events of this type. */
export const isReservedType = (type: string): boolean =>
  type.startsWith("system.") || RESERVED_EVENT_TYPES.has(type);

/** Whether rules and metrics can be about events of this type. */
export const isHeardType = (type: string): boolean =>
  !isReservedType(type) || DERIVED_EVENT_TYPES.has(type) || TRACKED_OWN_TYPES.has(type);
