import type { MergeSummary } from "./merge-plan.ts";

/** Why something happened. Carried by ledger entries, domain events and live messages. */
export type Cause = {
  kind:
    | "EVENT"
    | "RULE"
    | "BADGE"
    | "STREAK"
    | "LEVEL"
    | "LEADERBOARD"
    | "REWARD"
    | "API"
    | "ADMIN"
    | "MERGE"
    | "REVERSAL"
    | "EXPIRY";
  eventId?: string;
  rootEventId?: string;
  ruleId?: string;
  ruleKey?: string;
  ruleVersion?: number;
  actionId?: string;
  /** Key of the badge, streak or reward. */
  refKey?: string;
  refId?: string;
  actor?: string;
  note?: string;
};

export type Json = Record<string, unknown>;
export type PlayerRef = { playerId: string; externalUserId: string };

/** What a player reads of lives. Times are ISO 8601. */
export type LivesView = {
  current: number;
  max: number;
  nextLifeAt: string | null;
  fullAt: string | null;
  unlimitedUntil: string | null;
};

/** A boost as the API shows it. */
export type BoostView = {
  id: string;
  boostKey: string;
  applies: string;
  factor: number;
  startsAt: string;
  expiresAt: string;
  usesLeft: number | null;
  scope: "PLAYER" | "SEGMENT" | "PROJECT";
};

/** Events about players, rules and tracked events, with the shape of `data`. */
export type PlayerEvents = {
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
    /** After boosts and the daily cap. */
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
  "player.currency_granted": PlayerRef & {
    currencyKey: string;
    amount: number;
    balance: number;
    ledgerEntryId: string;
    expiresAt: string | null;
    cause: Cause;
  };
  /** `amount` is above 0. */
  "player.currency_spent": PlayerRef & {
    currencyKey: string;
    amount: number;
    balance: number;
    ledgerEntryId: string;
    reference: string | null;
    cause: Cause;
  };
  "player.currency_expired": PlayerRef & {
    currencyKey: string;
    amount: number;
    balance: number;
    ledgerEntryId: string;
  };
  "player.lives_changed": PlayerRef & { delta: number; lives: LivesView; cause: Cause };
  "player.badge_earned": PlayerRef & {
    badgeKey: string;
    badgeId: string;
    name: string;
    tier: number;
    previousTier: number;
    rarity: string;
    serialNo: number | null;
    timesAwarded: number;
    cause: Cause;
  };
  "player.badge_revoked": PlayerRef & { badgeKey: string; tier: number; cause: Cause };
  "player.streak_extended": PlayerRef & {
    streakKey: string;
    current: number;
    longest: number;
    period: string;
    deadlineAt: string | null;
    milestone: number | null;
  };
  "player.streak_at_risk": PlayerRef & {
    streakKey: string;
    current: number;
    deadlineAt: string;
    freezes: number;
  };
  "player.streak_frozen": PlayerRef & {
    streakKey: string;
    current: number;
    period: string;
    freezesLeft: number;
  };
  "player.streak_broken": PlayerRef & { streakKey: string; length: number; repairableUntil: string | null };
  "player.streak_repaired": PlayerRef & {
    streakKey: string;
    current: number;
    by: "LATE_EVENT" | "PURCHASE" | "ADMIN";
  };
  "player.segment_entered": PlayerRef & { segmentKey: string };
  "player.segment_left": PlayerRef & { segmentKey: string };
  "player.boost_started": PlayerRef & { boost: BoostView; cause: Cause };
  "player.boost_ended": PlayerRef & {
    boostKey: string;
    applies: string;
    by: "EXPIRED" | "USED_UP" | "REPLACED" | "REMOVED";
  };
  "player.reward_granted": PlayerRef & {
    grantId: string;
    rewardKey: string;
    kind: "BUNDLE" | "PRIZE";
    status: string;
    contents: Json;
    code: string | null;
    drawProof: null;
    cause: Cause;
  };
  "player.merged": { target: PlayerRef; source: PlayerRef; mergeId: string; summary: MergeSummary };
  "player.erased": { playerId: string; requestedAt: string; erasedAt: string };
  /** Live only: a message in the player's inbox. */
  "inbox.message": PlayerRef & {
    id: string;
    type: string;
    title: string;
    body: string | null;
    data: Json;
    rewardGrantId: string | null;
  };
  "rule.loop_detected": {
    ruleKey: string;
    ruleId: string;
    rootEventId: string;
    chain: string[];
    paused: boolean;
  };
  "rule.budget_exhausted": { ruleKey: string; ruleId: string; asset: string; max: number; window: string };
  "event.failed": {
    eventId: string;
    eventType: string;
    externalUserId: string;
    error: string;
    attempts: number;
  };
  /** A definition that took the most of the steps of an event, which did not suffice. */
  "event.steps_exhausted": {
    kind: "rule" | "badge" | "streak" | "segment" | "leaderboard";
    id: string;
    key: string;
    rootEventId: string;
    paused: boolean;
  };
  /** A definition whose counter did not count an event: what is kept of the player has no more room. */
  "event.uncounted": {
    kind: "rule" | "badge" | "streak" | "segment" | "leaderboard";
    id: string;
    key: string;
    playerId: string;
    rootEventId: string;
  };
  "event.reverted": {
    eventId: string;
    externalUserId: string;
    reversed: {
      xp: number;
      currencies: Record<string, number>;
      badges: string[];
      quests: string[];
      scores: string[];
    };
    shortfall: Record<string, number>;
  };
};

/**
 * [playerId, rankScore, rankTie, version, isHidden]: absolute values, so applying one twice or late is
 * harmless. A hidden entry is no place of the board.
 */
export type EntryChange = [
  playerId: string,
  rankScore: number,
  rankTie: number,
  version: number,
  isHidden?: boolean,
];

/**
 * The type under which an event that a rule emits goes to webhooks and the live stream: an integrator's own
 * name can then never be taken for one of the service's.
 */
export const customType = (eventType: string): `custom.${string}` => `custom.${eventType}`;
export type CustomData = PlayerRef & { eventType: string; properties: Json; cause: Cause };

const catalogue = (noun: string, names: string): string[] =>
  names.split(" ").map((name) => `${noun}.${name}`);

/** Types of the whole event catalogue: integrators may not send them as tracked events. */
export const RESERVED_EVENT_TYPES: ReadonlySet<string> = new Set([
  ...catalogue("player", "created updated xp_granted level_up currency_granted currency_spent"),
  ...catalogue("player", "currency_expired lives_changed badge_earned badge_revoked streak_extended"),
  ...catalogue("player", "streak_at_risk streak_frozen streak_broken streak_repaired segment_entered"),
  ...catalogue("player", "segment_left boost_started boost_ended reward_granted merged erased"),
  ...catalogue("quest", "started progress completed step_completed claimed expired failed"),
  ...catalogue("quest", "approval_requested"),
  ...catalogue("adventure", "started completed quest_unlocked tier_reached claimed"),
  ...catalogue("leaderboard", "rank_changed new_leader period_started period_closed league_moved"),
  ...catalogue("leaderboard", "score_held entries_changed"),
  ...catalogue("lobby", "created started ended game_finished member_joined member_left host_changed result"),
  ...catalogue("lobby", "changed"),
  ...catalogue("chat", "message_sent message_reported message_moderated player_sanctioned changed"),
  ...catalogue("raffle", "drawn"),
  ...catalogue("rule", "loop_detected budget_exhausted"),
  ...catalogue("event", "failed reverted steps_exhausted uncounted"),
  ...catalogue("inbox", "message"),
  ...catalogue("player", "notice"),
]);

const NEVER_DERIVED: ReadonlySet<string> = new Set(["player.erased", "player.notice"]);

/** What happens to a player and can set off rules: `event.properties` is then the event's data. */
export const DERIVED_EVENT_TYPES: ReadonlySet<string> = new Set(
  [...RESERVED_EVENT_TYPES].filter((type) => type.startsWith("player.") && !NEVER_DERIVED.has(type)),
);

/** Events of the service's own that are tracked as those of integrators are, and that rules hear. */
export const TRACKED_OWN_TYPES: ReadonlySet<string> = new Set(["lobby.result"]);

/** Whether integrators may send events of this type. */
export const isReservedType = (type: string): boolean =>
  type.startsWith("system.") || RESERVED_EVENT_TYPES.has(type);

/** Whether rules and metrics can be about events of this type. */
export const isHeardType = (type: string): boolean =>
  !isReservedType(type) || DERIVED_EVENT_TYPES.has(type) || TRACKED_OWN_TYPES.has(type);
