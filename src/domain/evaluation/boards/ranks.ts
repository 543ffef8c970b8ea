import type { EntryChange } from "../../kernel/events/events.ts";
import type { Moved } from "./moved.ts";

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
};

/** Maximum entries of a frozen copy. */
export const FROZEN_MAX = 10_000;
export const FROZEN_KEPT_MS = 60_000;
export const FROZEN_SHARED_MS = 1_000;
/** Maximum frozen copies of one project. */
export const FROZEN_COPIES_MAX = 20;

export type AfterRange = { skip: number; limit: number };
export type FrozenRange = { now: Date; offset: number; limit: number };

export type PeriodRef = { projectId: string; periodId: string; ties: Ties };

/** Reads a period's entries from the database in pages by player id, for building. */
export type EntrySource = (projectId: string, periodId: string) => AsyncIterable<EntryChange[]>;
