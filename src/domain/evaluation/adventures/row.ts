import { BEGUN_STATES } from "../quests/row.ts";

/** States of a player's adventure that are stored. WAITING: the player has premium, and has not joined. */
export type StoredAdventureState = "WAITING" | (typeof BEGUN_STATES)[number];

/** States as the API shows them: LOCKED and AVAILABLE are never stored. */
export const ADVENTURE_STATES = ["LOCKED", "AVAILABLE", ...BEGUN_STATES] as const;
export type PlayerAdventureState = (typeof ADVENTURE_STATES)[number];

export const TRACKS = ["FREE", "PREMIUM"] as const;
export type Track = (typeof TRACKS)[number];

/** What a player has done of an item: when first, how often, and the id of the last player's quest. */
export type ItemDone = { doneMs: number; times: number; last: string };

/** A tier that a player has reached, and when its rewards were granted. Times are in ms. */
export type TierReached = { reachedMs: number; freeMs?: number; premiumMs?: number };

/** A player's adventure. Every value is replaced, never edited. */
export type AdventureRow = {
  id: string;
  /** The version of the adventure that was published when the row was last changed. */
  version: number;
  state: StoredAdventureState;
  /** With fractions, to six decimals; players see whole points. */
  points: number;
  /** When the player joined; null while WAITING. */
  startedMs: number | null;
  completedMs: number | null;
  claimedMs: number | null;
  /** Since when the player has premium; null without. */
  premiumMs: number | null;
  /** When time alone will next change it; null for never. */
  dueMs: number | null;
  /** By key of the quest. */
  items: Readonly<Record<string, ItemDone>>;
  /** Keys of the quests that are unlocked. */
  unlocked: readonly string[];
  /** By number of the tier. */
  tiers: Readonly<Record<string, TierReached>>;
  /** Whether the player joined by progress: without any, a revert undoes that. */
  isAuto?: true;
  /** How often reverts have taken back rewards of it: these can be given again, under another key. */
  again?: number;
  /** Whether it must be saved. */
  isChanged?: true;
};

/** Returns the whole points of a row; none without one. */
export const wholePoints = (row: Pick<AdventureRow, "points"> | undefined): number =>
  Math.floor(row?.points ?? 0);

/** Returns whether a player has joined. */
export const hasJoined = (row: AdventureRow | undefined): row is AdventureRow =>
  row !== undefined && row.startedMs !== null;

/** What a row has whose player has not joined. */
export const NOT_JOINED = {
  state: "WAITING",
  points: 0,
  startedMs: null,
  completedMs: null,
  claimedMs: null,
  items: {},
  unlocked: [],
} as const satisfies Partial<AdventureRow>;

/** Returns the row of a player who has not joined any more; premium stays. */
export const notJoined = ({ isAuto: _isAuto, ...row }: AdventureRow): AdventureRow => ({
  ...row,
  ...NOT_JOINED,
});

/** Returns whether an unfinished row that has expired runs again, since the end was put off. */
export const isReopened = (
  { state, completedMs }: AdventureRow,
  { endMs }: { endMs: number },
  nowMs: number,
): boolean => state === "EXPIRED" && completedMs === null && nowMs < endMs;
