import type { EntryChange } from "../../kernel/events/events.ts";

/**
 * The range of rankScores in which ranks may have changed, both ends inclusive, the smaller and better one
 * first; null is open. Ranks outside of it are unchanged.
 */
export type Moved = { from: number | null; to: number | null };

/** All ranks may have changed. */
export const ALL_MOVED: Moved = { from: null, to: null };

/** Returns the range for an entry that moved from one score to another; undefined stands for no entry. */
export const movedBetween = (before: number | undefined, after: number | undefined): Moved | undefined => {
  if (before === undefined && after === undefined) return undefined;
  // One entry more or fewer shifts all that follow.
  if (before === undefined || after === undefined) return { from: (before ?? after)!, to: null };
  return { from: Math.min(before, after), to: Math.max(before, after) };
};

/** Returns the union of two ranges. */
export const joinMoved = (a: Moved | undefined, b: Moved | undefined): Moved | undefined => {
  if (!a || !b) return a ?? b;
  const from = a.from === null || b.from === null ? null : Math.min(a.from, b.from);
  const to = a.to === null || b.to === null ? null : Math.max(a.to, b.to);
  return { from, to };
};

export const mayHaveMoved = ({ from, to }: Moved, rankScore: number): boolean =>
  (from === null || rankScore >= from) && (to === null || rankScore <= to);

/** How equal scores are ranked: by storage order (EARLIEST, LATEST), 1-2-2-4 (SHARED) or 1-2-2-3 (DENSE). */
export const TIES = ["EARLIEST", "LATEST", "SHARED", "DENSE"] as const;
export type Ties = (typeof TIES)[number];

/** An entry of a period in the index. Both numbers ascend: the smallest rankScore is first. */
export type Ranked = { playerId: string; rankScore: number; rankTie: number };

/** `position` is the 0-based storage position, `rank` the displayed 1-based rank under the period's ties. */
export type Standing = Ranked & { position: number; rank: number };

export type RankPage = { standings: Standing[]; total: number };

/**
 * The rank index of open periods: a projection of `leaderboard_entries`, in memory or in Redis. `apply` takes
 * absolute values with versions and keeps the newest, so it may be repeated, late or concurrent with
 * `rebuild`. Reads throw DomainError SERVICE_UNAVAILABLE while another process builds a period; otherwise
 * they build it if necessary.
 */
export type RankStore = {
  /** @returns the range of scores in which ranks have changed; undefined when all versions were old */
  apply(projectId: string, periodId: string, entries: readonly EntryChange[]): Promise<Moved | undefined>;
  page(period: PeriodRef, offset: number, limit: number): Promise<RankPage>;
  /**
   * Returns up to `limit` standings around the player (the player in the middle), or undefined when the
   * player has no entry.
   */
  around(period: PeriodRef, playerId: string, limit: number): Promise<RankPage | undefined>;
  standing(period: PeriodRef, playerId: string): Promise<Standing | undefined>;
  /** Returns the standings of those of `playerIds` with an entry, in no particular order. */
  standings(period: PeriodRef, playerIds: readonly string[]): Promise<Standing[]>;
  /**
   * Returns up to `limit` standings after a position, skipping `skip`; the entry at that position need not
   * exist.
   */
  after(period: PeriodRef, place: Ranked, range: AfterRange): Promise<RankPage>;
  /**
   * Copies the first FROZEN_MAX entries, or shares a copy at most FROZEN_SHARED_MS old, and returns its
   * token. The copy is kept for FROZEN_KEPT_MS, or until the project has FROZEN_COPIES_MAX newer ones.
   */
  freeze(period: PeriodRef, now: Date): Promise<string>;
  /** Returns a page of a copy, with the total of the whole board; undefined when there is no such copy. */
  frozen(period: PeriodRef, token: string, range: FrozenRange): Promise<RankPage | undefined>;
  /** Rebuilds from the database, concurrently with reads and updates. */
  rebuild(period: PeriodRef): Promise<void>;
  drop(projectId: string, periodId: string): Promise<void>;
  /** Remembers that commits up to this number of the queue are applied, or about to be. */
  reached(seq: number): Promise<void>;
};

/** Maximum entries of a frozen copy. */
export const FROZEN_MAX = 10_000;
export const FROZEN_KEPT_MS = 60_000;
export const FROZEN_SHARED_MS = 1_000;
/** Maximum frozen copies of one project. */
export const FROZEN_COPIES_MAX = 20;

type AfterRange = { skip: number; limit: number };
type FrozenRange = { now: Date; offset: number; limit: number };

export type PeriodRef = { projectId: string; periodId: string; ties: Ties };

/** Reads a period's entries from the database in pages by player id, for building. */
export type EntrySource = (projectId: string, periodId: string) => AsyncIterable<EntryChange[]>;
