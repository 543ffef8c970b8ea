import type { Cause, Json } from "../kernel/events/events.ts";
import type { LoadedList } from "./boards/list.ts";

/**
 * What evaluation knows of a player: loaded once for a batch, changed in memory, saved once. Every value in
 * here is replaced and never edited in place, so that a shallow copy can be put back (snapshot.ts).
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
  /** Tip of the player's ledger chain, hexadecimal; see evaluation/ledger/chain.ts. */
  ledgerHash: string | null;
  lives: LivesStored;
  timezone: string | null;
  /** When the player's zone last changed, in ms: streaks take one change a day. */
  zoneChangedMs: number | null;
  locale: string | null;
  country: string | null;
  attributes: Json;
  tags: string[];
  createdAt: Date;
  lastSeenAt: Date | null;
  /** Counters and limit state, in one document. */
  doc: PlayerDoc;
  /** What the document takes as JSON. */
  docSize: DocSize;
  /** Lists that were loaded with the player, besides those of boards with one ranking, by id. */
  lists: Map<string, LoadedList>;
  /** Times of what is coming, in ms: lists of those times are loaded; of now, where there are none. */
  timesMs: readonly number[];
  /** The attributes as they were when the lists were named: what the player changes now counts from later. */
  firstAttributes?: Json;
  /** What has to be written back. */
  dirty: Dirty;
} & { [Name in HeldName]: Map<string, Held[Name]> };

/**
 * Things that players hold, each kind in a map of its own. A kind that is added has to be answered for in
 * every record that has `HeldName` for its keys: how it is loaded and saved, merged, erased and shown.
 */
export type Held = {
  /** Entries of lists of boards, by the list's id. */
  entries: EntryState;
  /** By key of the currency. */
  balances: BalanceState;
  /** Lots of currencies that expire, by key of the currency, the one that expires first in front. */
  lots: readonly LotState[];
  /** By key of the badge. */
  badges: BadgeState;
  /** By key of the streak. */
  streaks: StreakState;
  /** Segments that the player is in, by key: when the player entered, in ms. */
  segments: number;
  /** The player's own boosts by id; those of the project are part of the plan. */
  boosts: BoostState;
};
export type HeldName = keyof Held;

/** Keys of what changed; see the part of each (progression/parts). */
export type Dirty = { profile: boolean; doc: boolean } & { [Name in HeldName]: Set<string> };

/**
 * The jsonb of player_states. `l`: limit state by rule id (`~` before the id of a rule in SHADOW); `c`:
 * counters by metric id (metrics/counters.ts); `x`: [local day number, XP of it before the cap] for the daily
 * cap; `v`: the highest level whose reward was given, which a loss does not lower; `r`: how often a reversal
 * took back the reward of a level, by its number, or tiers of a badge, by `b:` and its key; `w`: how many of
 * each reward of the catalogue were given, by key; `b`: ids of boards from which the player is banned; `z`:
 * versions of entries that were removed, by list; `s`: [minute, scores submitted in it], by id of a board
 * that limits these.
 */
export type PlayerDoc = {
  l?: Record<string, unknown>;
  c?: Record<string, unknown>;
  x?: readonly [day: number, xp: number];
  v?: number;
  r?: Readonly<Record<string, number>>;
  w?: Readonly<Record<string, number>>;
  b?: readonly string[];
  z?: Readonly<Record<string, number>>;
  s?: Readonly<Record<string, readonly [minute: number, scores: number]>>;
};

/**
 * What a player's document takes as JSON, in bytes. Of a small one it is a bound from above, so that nobody
 * has to measure what was counted; a large one is measured. `isPruned`: it has nothing that nobody reads.
 */
export type DocSize = { bytes: number; isExact: boolean; isPruned: boolean };

export type EntryState = {
  rankScore: number;
  rankTie: number;
  latestUs: number;
  version: number;
  /** Scores submitted, where the board limits them. */
  submissions?: number;
  /** What was submitted with the score, when that is to be written. */
  meta?: Json | null;
};

/** Lives as stored: `count` and `anchorMs` are null until first used; see lives/lives.ts for what is read. */
export type LivesStored = {
  count: number | null;
  anchorMs: number | null;
  unlimitedUntilMs: number | null;
};

/** Available is balance - held. */
export type BalanceState = { balance: number; held: number; earned: number; spent: number };
export type LotState = {
  id: string;
  /** 0: used up, and goes. */
  remaining: number;
  expiresMs: number;
  /** Whether it has to be written back. */
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

/** `current`, `longest`, `freezes` and `deadlineMs` have columns of their own; the rest is one document. */
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

/** Reads an input of a segment: another value, by `Object.is`, whenever what the player holds has changed. */
export type InputReader = (player: PlayerState) => unknown;

/** A kind of thing that players hold, as far as evaluation treats all kinds alike. */
type HeldKind = {
  /** Inputs of segments that read it: by the word before the colon, a reader of the key after it. */
  inputs: Readonly<Record<string, (key: string) => InputReader>>;
};

export const HELD: Readonly<Record<HeldName, HeldKind>> = {
  // The number of changes in hand, and so another one with every change.
  entries: {
    inputs: {
      entries: () => (player) => [...player.entries.values()].reduce((sum, { version }) => sum + version, 0),
    },
  },
  balances: { inputs: { currency: (key) => (player) => player.balances.get(key) } },
  lots: { inputs: {} },
  badges: { inputs: { badge: (key) => (player) => player.badges.get(key) } },
  streaks: { inputs: { streak: (key) => (player) => player.streaks.get(key) } },
  segments: { inputs: { segment: (key) => (player) => player.segments.has(key) } },
  boosts: { inputs: {} },
};

export const HELD_NAMES = Object.keys(HELD) as readonly HeldName[];

/** A record with a value for each kind of thing that players hold. */
export const eachHeld = <T>(make: (name: HeldName) => T): Record<HeldName, T> =>
  Object.fromEntries(HELD_NAMES.map((name) => [name, make(name)])) as Record<HeldName, T>;

export const nothingHeld = (): { [Name in HeldName]: Map<string, Held[Name]> } =>
  eachHeld(() => new Map<string, never>());

export const nothingDirty = (): Dirty => ({
  profile: false,
  doc: false,
  ...eachHeld(() => new Set<string>()),
});
