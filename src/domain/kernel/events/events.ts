/** How the state of two players is combined; see docs and `mergePlayers`. */
export type MergeStrategy = {
  xp: "SUM" | "MAX" | "KEEP_TARGET";
  currencies: "SUM" | "MAX" | "KEEP_TARGET";
  /** By the board's operator: BEST the better score, SUM the sum, LATEST the later one. */
  leaderboards: "BY_OPERATOR" | "KEEP_TARGET";
  /** Which attributes, metadata and profile take precedence where both have a value. */
  profile: "TARGET_WINS" | "SOURCE_WINS";
};

export const DEFAULT_STRATEGY: MergeStrategy = {
  xp: "SUM",
  currencies: "SUM",
  leaderboards: "BY_OPERATOR",
  profile: "TARGET_WINS",
};

type Joined = { target: number; source: number; result: number };

/** Changes made by a merge, or that it would make. */
export type MergeSummary = {
  xp: Joined;
  level: { target: number; result: number };
  currencies: Record<string, Joined>;
  /** Currency amounts lost because they exceeded the maximum. */
  clamped: Record<string, number>;
  lives: Joined | null;
  /** Badges and tiers that the target did not have. */
  badges: { badgeKey: string; tier: number }[];
  streaks: { streakKey: string; current: number; longest: number; freezes: number }[];
  /** Static segments that the target was not in. */
  segments: string[];
  boosts: number;
  leaderboards: { leaderboardKey: string; score: number }[];
  /** State left out because the result would exceed a limit. */
  dropped: string[];
  holdsReleased: number;
};

export const emptySummary = (): MergeSummary => ({
  xp: { target: 0, source: 0, result: 0 },
  level: { target: 1, result: 1 },
  currencies: {},
  clamped: {},
  lives: null,
  badges: [],
  streaks: [],
  segments: [],
  boosts: 0,
  leaderboards: [],
  dropped: [],
  holdsReleased: 0,
});

export const CAUSE_KINDS = [
  "EVENT",
  "RULE",
  "BADGE",
  "STREAK",
  "QUEST",
  "ADVENTURE",
  "LEVEL",
  "LEADERBOARD",
  "REWARD",
  "API",
  "ADMIN",
  "MERGE",
  "REVERSAL",
  "EXPIRY",
] as const;

/** The cause of a change. Part of ledger entries, domain events and live messages. */
export type Cause = {
  kind: (typeof CAUSE_KINDS)[number];
  eventId?: string;
  rootEventId?: string;
  ruleId?: string;
  ruleKey?: string;
  ruleVersion?: number;
  actionId?: string;
  /** Key of the badge, streak, quest, adventure or reward. */
  refKey?: string;
  refId?: string;
  actor?: string;
  note?: string;
};

export type Json = Record<string, unknown>;
export type PlayerRef = { playerId: string; externalUserId: string };

/** Lives of a player in the API. Times are ISO 8601. */
export type LivesView = {
  current: number;
  max: number;
  nextLifeAt: string | null;
  fullAt: string | null;
  unlimitedUntil: string | null;
};

/** A boost in the API. */
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
  "player.level_up": PlayerRef & { previousLevel: number; newLevel: number; xp: number };
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
  /** The definition that took most of the steps of an event that exceeded its budget. */
  "event.steps_exhausted": {
    kind: "rule" | "badge" | "streak" | "segment" | "leaderboard" | "quest" | "adventure";
    id: string;
    key: string;
    rootEventId: string;
    paused: boolean;
  };
  /** A definition whose counter missed an event because the player's state document is full. */
  "event.uncounted": {
    kind: "rule" | "badge" | "streak" | "segment" | "leaderboard" | "quest" | "adventure";
    id: string;
    key: string;
    rootEventId: string;
  } & PlayerRef;
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
 * harmless. A hidden entry has no rank.
 */
export type EntryChange = [
  playerId: string,
  rankScore: number,
  rankTie: number,
  version: number,
  isHidden?: boolean,
];

/**
 * Returns the type under which an event emitted by a rule goes to webhooks and the live stream: an
 * integrator's own name can never be mistaken for one of the service's.
 */
export const customType = (eventType: string): `custom.${string}` => `custom.${eventType}`;
export type CustomData = PlayerRef & { eventType: string; properties: Json; cause: Cause };
