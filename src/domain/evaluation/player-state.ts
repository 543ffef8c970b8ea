import type { AdventureRow } from "./adventures/row.ts";
import type { LoadedList, Moment } from "./boards/board.ts";
import type { ScopeAmounts } from "./caps/cap.ts";
import type { AggregateState } from "./metrics/aggregates.ts";
import type { QuestRow } from "./quests/row.ts";
import { conflict } from "../kernel/errors.ts";
import type { Cause, Json } from "../kernel/events/events.ts";

/**
 * A player's state in evaluation: loaded once for a batch, changed in memory, saved once. Every value here is
 * replaced and never edited in place, so that a shallow copy can be restored (turn.ts); only the fields
 * EDITED_IN_PLACE of the document are copied one level deeper.
 */
export type PlayerState = {
  id: string;
  projectId: string;
  externalUserId: string;
  displayName: string | null;
  status: "ACTIVE" | "SUSPENDED" | "BANNED" | "MERGED" | "ERASED";
  /** Deleted by REST: SUSPENDED, and hidden from lists and boards. */
  isDeleted?: boolean;
  xp: number;
  level: number;
  /** Sequence of the player stream: +1 for each outbox row of the player. */
  seq: number;
  ledgerSeq: number;
  /** Tip of the player's ledger chain, hexadecimal; see evaluation/ledger/append.ts. */
  ledgerHash: string | null;
  lives: LivesStored;
  timezone: string | null;
  /** When the player's zone last changed, in ms: streaks accept one change a day. */
  zoneChangedMs: number | null;
  locale: string | null;
  country: string | null;
  attributes: Json;
  tags: string[];
  createdAt: Date;
  /** The first event's time where it is before `createdAt`, else null. */
  firstSeenAt: Date | null;
  lastSeenAt: Date | null;
  /** The last month with an event of its own that was processed, such as 202611; null before the first. */
  activeMonth: number | null;
  /** Counters and limit state, in one document. */
  doc: PlayerDoc;
  /** Size of the document as JSON. */
  docSize: DocSize;
  /** Lists loaded with the player, besides those of boards with one ranking, by id. */
  lists: Map<string, LoadedList>;
  /** Moments of upcoming events whose lists are loaded; without any, those of now. */
  moments: readonly Moment[];
  /**
   * The attributes when the lists were determined: changes by the current batch apply from the next one on.
   */
  firstAttributes?: Json;
  /** Fields to be saved. */
  dirty: Dirty;
} & { [Name in HoldingName]: Map<string, Holdings[Name]> };

/**
 * Holdings of players, each kind in a map of its own. A new kind must be added to every record keyed by
 * `HoldingName`: how it is loaded, saved, merged, erased and shown.
 */
type Holdings = {
  /** Entries of lists of boards, by the list's id. */
  entries: EntryState;
  /** By key of the currency. */
  balances: BalanceState;
  /** Lots of expiring currencies, by key of the currency, ordered by expiry. */
  lots: readonly LotState[];
  /** By key of the badge. */
  badges: BadgeState;
  /** By key of the streak. */
  streaks: StreakState;
  /** The player's segments, by key: when the player entered, in ms. */
  segments: number;
  /** The player's own boosts by id; those of the project are part of the plan. */
  boosts: BoostState;
  /** By key of the quest. */
  quests: QuestState;
  /** By key of the adventure. */
  adventures: AdventureRow;
};
export type HoldingName = keyof Holdings;

/** Keys of changed holdings; see the part of each (progression/parts). */
type Dirty = { profile: boolean; doc: boolean } & { [Name in HoldingName]: Set<string> };

/**
 * The jsonb of player_states. `l`: limit state by rule id (`~` before the id of a rule in SHADOW); `c`:
 * counters by metric id (metrics/compile.ts); `g`: what caps have counted, by rule id as in `l`, or `*` for
 * the project's (caps/cap.ts); `x`: [local day number, XP of it before the cap] for the daily
 * cap; `v`: the highest level whose reward was given, which a loss does not lower; `r`: how often a reversal
 * took back the reward of a level, by its number, or tiers of a badge, by `b:` and its key; `w`: how many of
 * each reward of the catalogue were given, by key; `b`: ids of boards from which the player is banned; `z`:
 * versions of entries that were removed, by list (boards/lists.ts); `s`: [minute, scores submitted in it], by id of a board
 * that limits these; `q`: what steps of quests in progress have counted, by id of the player's quest and key
 * of the step; `h`: how many awards of a repeatable badge its progress did not bring, by key: those by hand, and
 * all before it was revoked.
 */
export type PlayerDoc = {
  l?: Record<string, unknown>;
  c?: Record<string, unknown>;
  g?: Record<string, ScopeAmounts>;
  x?: readonly [day: number, xp: number];
  v?: number;
  r?: Readonly<Record<string, number>>;
  w?: Readonly<Record<string, number>>;
  b?: readonly string[];
  z?: Readonly<Record<string, number>>;
  s?: Readonly<Record<string, readonly [minute: number, scores: number]>>;
  q?: Record<string, Readonly<Record<string, StepCount>>>;
  h?: Readonly<Record<string, number>>;
};

/** What a step of a quest has counted: an aggregate, or the last period of a streak and its length. */
export type StepCount = AggregateState;

/** Fields of the document whose own fields are assigned; all others are replaced as a whole. */
export const EDITED_IN_PLACE = ["l", "c", "g", "q"] as const satisfies readonly (keyof PlayerDoc)[];

/**
 * Size of a player's document as JSON, in bytes. For a small one it is an upper bound, which saves measuring
 * every change; a large one is measured. `isPruned`: it has nothing that no definition reads.
 */
export type DocSize = { bytes: number; isExact: boolean; isPruned: boolean };

export type EntryState = {
  rankScore: number;
  rankTie: number;
  latestUs: number;
  version: number;
  /** Scores submitted, where the board limits them. */
  submissions?: number;
  /**
   * How many of its scores are recorded with the firings of rules; absent where others took part too.
   */
  recorded?: number;
  /** Data submitted with the score, if it is to be written. */
  meta?: Json | null;
};

/**
 * Lives as stored: `count` and `anchorMs` are null until first used; see lives/lives.ts for the current
 * value.
 */
type LivesStored = {
  count: number | null;
  anchorMs: number | null;
  unlimitedUntilMs: number | null;
};

/** Available is balance - held. */
export type BalanceState = { balance: number; held: number; earned: number; spent: number };
export type LotState = {
  id: string;
  /** 0: used up, to be deleted. */
  remaining: number;
  expiresMs: number;
  /** Whether it must be saved. */
  isChanged?: true;
};

export type BadgeState = {
  /** 0: none held. */
  tier: number;
  progress: number;
  timesAwarded: number;
  serialNo: number | null;
  firstEarnedMs: number | null;
  lastEarnedMs: number | null;
  revokedMs: number | null;
};

/** `current`, `longest`, `freezes` and `deadlineMs` have their own columns; the rest is one document. */
export type StreakState = {
  current: number;
  longest: number;
  freezes: number;
  /** The instant at which the streak breaks unless it is extended. */
  deadlineMs: number | null;
  doc: Json;
};

export type Stacking = "MAX" | "MULTIPLY" | "EXTEND" | "REPLACE";
export type BoostState = {
  id: string;
  boostKey: string;
  /** `xp`, `currency:{key}` or `score:{leaderboard key}`. */
  applies: string;
  factor: number;
  stacking: Stacking;
  startsMs: number;
  expiresMs: number;
  usesLeft: number | null;
  cause: Cause;
};

/** A player's quest: its latest cycle, and earlier ones whose rewards have not been claimed. */
export type QuestState = { latest: QuestRow; older: readonly QuestRow[] };

/**
 * Reads an input of a segment: its value differs, by `Object.is`, whenever the underlying holding has
 * changed.
 */
export type InputReader = (player: PlayerState) => unknown;

/** A kind of holding, as far as evaluation treats all kinds alike. */
type HoldingKind = {
  /** Readers of inputs of segments: by the word before the colon, a function of the key after it. */
  inputs: Readonly<Record<string, (key: string) => InputReader>>;
  /**
   * Inputs that events of the server change, by the beginning of the event's type; the key of the event's
   * subject is appended. The check for endless loops follows them.
   */
  changedBy: Readonly<Record<string, string>>;
};

export const HOLDINGS: Readonly<Record<HoldingName, HoldingKind>> = {
  // The number of pending changes, which differs after every change.
  entries: {
    inputs: {
      entries: () => (player) => [...player.entries.values()].reduce((sum, { version }) => sum + version, 0),
    },
    // By whatever boards count.
    changedBy: {},
  },
  balances: {
    inputs: { currency: (key) => (player) => player.balances.get(key) },
    changedBy: { "player.currency_": "field:currencies." },
  },
  lots: { inputs: {}, changedBy: {} },
  badges: {
    inputs: { badge: (key) => (player) => player.badges.get(key) },
    changedBy: { "player.badge_": "badge:" },
  },
  streaks: {
    inputs: { streak: (key) => (player) => player.streaks.get(key) },
    changedBy: { "player.streak_": "streak:" },
  },
  segments: {
    inputs: { segment: (key) => (player) => player.segments.has(key) },
    changedBy: { "player.segment_": "segment:" },
  },
  boosts: { inputs: {}, changedBy: {} },
  quests: {
    inputs: { quest: (key) => (player) => player.quests.get(key) },
    changedBy: { "quest.": "quest:" },
  },
  adventures: {
    inputs: { adventure: (key) => (player) => player.adventures.get(key) },
    changedBy: { "adventure.": "adventure:" },
  },
};

export const HOLDING_NAMES = Object.keys(HOLDINGS) as readonly HoldingName[];

/** Builds a record with a value for each kind of holding. */
export const eachHolding = <T>(make: (name: HoldingName) => T): Record<HoldingName, T> =>
  Object.fromEntries(HOLDING_NAMES.map((name) => [name, make(name)])) as Record<HoldingName, T>;

export const noHoldings = (): { [Name in HoldingName]: Map<string, Holdings[Name]> } =>
  eachHolding(() => new Map<string, never>());

export const nothingDirty = (): Dirty => ({
  profile: false,
  doc: false,
  ...eachHolding(() => new Set<string>()),
});

/** Rejects changes to players that are not ACTIVE. @throws DomainError CONFLICT PLAYER_INACTIVE */
export const checkActive = ({ status }: Pick<PlayerState, "status">): void => {
  if (status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
};
