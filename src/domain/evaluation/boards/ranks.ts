import type { EntryChange } from "../../kernel/events/events.ts";
import type { Moved } from "./moved.ts";

/** How equal scores are ranked: by storage order (EARLIEST, LATEST), 1-2-2-4 (SHARED) or 1-2-2-3 (DENSE). */
export const TIES = ["EARLIEST", "LATEST", "SHARED", "DENSE"] as const;
export type Ties = (typeof TIES)[number];

/** A member of a period as the index keeps it. Both numbers ascend: the smallest rankScore is first. */
export type Ranked = { playerId: string; rankScore: number; rankTie: number };

/** `position` is the 0-based storage position, `rank` the displayed 1-based rank under the period's ties. */
export type Standing = Ranked & { position: number; rank: number };

export type RankPage = { standings: Standing[]; total: number };

/**
 * The rank index of open periods: a projection of `leaderboard_entries`, in memory or in Redis. `apply`
 * takes absolute values with versions, keeps the newest, and so may be repeated, late or concurrent with
 * `rebuild`. Reads throw DomainError SERVICE_UNAVAILABLE while a period is being built elsewhere; they
 * build it when nobody is.
 */
export type RankStore = {
  /** @returns between which scores ranks have changed; undefined when all versions were old */
  apply(projectId: string, periodId: string, entries: readonly EntryChange[]): Promise<Moved | undefined>;
  page(period: PeriodRef, offset: number, limit: number): Promise<RankPage>;
  /**
   * Up to `limit` standings around the player (the player in the middle), or undefined when the player has
   * no entry.
   */
  around(period: PeriodRef, playerId: string, limit: number): Promise<RankPage | undefined>;
  standing(period: PeriodRef, playerId: string): Promise<Standing | undefined>;
  /** The standings of those of `playerIds` who have an entry, in no order. */
  standings(period: PeriodRef, playerIds: readonly string[]): Promise<Standing[]>;
  /** Up to `limit` standings that come after a place and `skip` others; it need not be taken any more. */
  after(period: PeriodRef, place: Ranked, range: AfterRange): Promise<RankPage>;
  /**
   * Copies the first FROZEN_MAX places, or shares a copy made FROZEN_SHARED_MS ago at most, and answers its
   * token. The copy is kept for FROZEN_KEPT_MS, or until the project has FROZEN_COPIES_MAX newer ones.
   */
  freeze(period: PeriodRef, now: Date): Promise<string>;
  /** A page of a copy, with as many entries as the whole board had; undefined when there is no such copy. */
  frozen(period: PeriodRef, token: string, range: FrozenRange): Promise<RankPage | undefined>;
  /** Reads the truth again, while reads and applies go on. */
  rebuild(period: PeriodRef): Promise<void>;
  drop(projectId: string, periodId: string): Promise<void>;
};

/** Places in a frozen copy. */
export const FROZEN_MAX = 10_000;
export const FROZEN_KEPT_MS = 60_000;
export const FROZEN_SHARED_MS = 1_000;
/** Frozen copies of one project at a time. */
export const FROZEN_COPIES_MAX = 20;

export type AfterRange = { skip: number; limit: number };
export type FrozenRange = { now: Date; offset: number; limit: number };

export type PeriodRef = { projectId: string; periodId: string; ties: Ties };

/** Reads a period's entries from the database in pages by player id, for building. */
export type EntrySource = (projectId: string, periodId: string) => AsyncIterable<EntryChange[]>;
