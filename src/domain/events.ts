/** Why something happened. Carried by ledger entries, domain events and live messages. */
export type Cause = {
  kind: "EVENT" | "RULE" | "LEADERBOARD" | "API" | "ADMIN";
  eventId?: string;
  rootEventId?: string;
  ruleId?: string;
  ruleKey?: string;
  ruleVersion?: number;
  actionId?: string;
  actor?: string;
  note?: string;
};

export type Json = Record<string, unknown>;
export type PlayerRef = { playerId: string; externalUserId: string };

/**
 * The domain events that commits put into the outbox, with the shape of `data`. Webhooks and the live player
 * stream read this list; `leaderboard.entries_changed` is internal and feeds the rank index.
 */
export type Events = {
  "player.created": PlayerRef & {
    displayName: string | null;
    xp: number;
    level: number;
    attributes: Json;
    tags: string[];
    source: "IDENTIFY" | "EVENT" | "IMPORT";
    createdAt: string;
  };
  "player.updated": PlayerRef & { changed: string[]; before: Json; after: Json; cause: Cause };
  "player.xp_granted": PlayerRef & {
    amount: number;
    baseAmount: number;
    boostFactor: number;
    xp: number;
    level: number;
    ledgerEntryId: string;
    cause: Cause;
  };
  /** Exactly the four fields of the specification. */
  "player.level_up": { playerId: string; previousLevel: number; newLevel: number; xp: number };
  "event.failed": {
    eventId: string;
    eventType: string;
    externalUserId: string;
    error: string;
    attempts: number;
  };
  "leaderboard.entries_changed": { periodId: string; entries: EntryChange[] };
};

/** [playerId, rankScore, rankTie, version]: absolute values, so applying one twice or late is harmless. */
export type EntryChange = [playerId: string, rankScore: number, rankTie: number, version: number];

export type EventType = keyof Events;
export type EventData<T extends EventType> = Events[T];

const catalogue = (noun: string, ...names: string[]): string[] => names.map((name) => `${noun}.${name}`);

/** Types of the whole event catalogue: integrators may not send them as tracked events. */
export const RESERVED_EVENT_TYPES: ReadonlySet<string> = new Set([
  ...catalogue(
    "player",
    "created",
    "updated",
    "xp_granted",
    "level_up",
    "currency_granted",
    "currency_spent",
  ),
  ...catalogue(
    "player",
    "currency_expired",
    "lives_changed",
    "badge_earned",
    "badge_revoked",
    "streak_extended",
  ),
  ...catalogue(
    "player",
    "streak_at_risk",
    "streak_frozen",
    "streak_broken",
    "streak_repaired",
    "segment_entered",
  ),
  ...catalogue(
    "player",
    "segment_left",
    "boost_started",
    "boost_ended",
    "reward_granted",
    "merged",
    "erased",
  ),
  ...catalogue("quest", "started", "progress", "completed", "step_completed", "claimed", "expired", "failed"),
  ...catalogue("quest", "approval_requested"),
  ...catalogue("adventure", "started", "completed", "quest_unlocked", "tier_reached", "claimed"),
  ...catalogue(
    "leaderboard",
    "rank_changed",
    "new_leader",
    "period_started",
    "period_closed",
    "league_moved",
  ),
  ...catalogue("leaderboard", "score_held", "entries_changed"),
  ...catalogue("lobby", "created", "started", "ended", "game_finished", "member_joined", "member_left"),
  ...catalogue("lobby", "host_changed", "result"),
  ...catalogue("chat", "message_sent", "message_reported", "message_moderated", "player_sanctioned"),
  ...catalogue("raffle", "drawn"),
  ...catalogue("rule", "loop_detected", "budget_exhausted"),
  ...catalogue("event", "failed", "reverted"),
]);
