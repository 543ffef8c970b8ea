import type { PeriodRef, Ranked, RankPage, RankStore, Standing } from "../evaluation/boards/ranks.ts";
import { DomainError } from "../kernel/errors.ts";
import { periodTopic, type Topics } from "../kernel/topics.ts";
import type { EntryChange } from "../kernel/events/events.ts";
import type { OwnChanges } from "../kernel/caches.ts";
import { grouped } from "../kernel/flights.ts";

type OwnRankParts = { changes: OwnChanges; topics: Pick<Topics, "publish"> };

/**
 * Creates what brings kept entries of a list into the index. Whoever reads the list meanwhile waits for it.
 */
const bringer = ({ changes, topics }: OwnRankParts, apply: RankStore["apply"]) => {
  const applying = new Map<string, Promise<void>>();
  const applyAll = async ({ projectId, periodId }: PeriodRef, entries: EntryChange[]): Promise<void> => {
    await applying.get(periodId)?.catch(() => undefined);
    try {
      const moved = await apply(projectId, periodId, entries);
      if (moved) topics.publish(periodTopic(projectId, periodId), moved);
    } catch (error) {
      changes.keepEntries({ projectId, periodId, entries });
      throw error;
    }
  };
  return async (ref: PeriodRef): Promise<void> => {
    const { projectId, periodId } = ref;
    const entries = changes.takeEntries(projectId, periodId);
    if (entries.length === 0) return applying.get(periodId);
    const applied = applyAll(ref, entries);
    applying.set(periodId, applied);
    try {
      await applied;
    } finally {
      if (applying.get(periodId) === applied) applying.delete(periodId);
    }
  };
};

/**
 * A rank index whose reads contain what requests of this process have committed, also where the relay has not
 * come to it: entries are applied before their list is read. The relay applies them too, and finds nothing
 * new.
 */
export const withOwnChanges = (ranks: RankStore, parts: OwnRankParts): RankStore => {
  const { changes } = parts;
  const apply: RankStore["apply"] = async (projectId, periodId, entries) => {
    const moved = await ranks.apply(projectId, periodId, entries);
    changes.areInIndex({ projectId, periodId, entries });
    return moved;
  };
  const bring = bringer(parts, apply);
  /** A read of a list, after what belongs into it. */
  const after =
    <A extends unknown[], R>(read: (ref: PeriodRef, ...rest: A) => Promise<R>) =>
    async (ref: PeriodRef, ...rest: A): Promise<R> => {
      await bring(ref);
      return read(ref, ...rest);
    };
  return {
    apply,
    page: after(ranks.page),
    around: after(ranks.around),
    standing: after(ranks.standing),
    standings: after(ranks.standings),
    after: after(ranks.after),
    freeze: after(ranks.freeze),
    frozen: ranks.frozen,
    rebuild: async (ref) => {
      await ranks.rebuild(ref);
      changes.note(ref.projectId);
    },
    drop: async (projectId, periodId) => {
      await ranks.drop(projectId, periodId);
      changes.note(projectId);
    },
    reached: ranks.reached,
  };
};

/** A committed change of a player's entry in a list. */
export type RankMove = {
  period: PeriodRef;
  playerId: string;
  /** The entry before the change. */
  before: Ranked | undefined;
  change: EntryChange | undefined;
};

/** Ranks are null when the player has none, and when the rank index did not answer. */
type MovedRanks = { rank: number | null; previousRank: number | null };

/** Puts a change into the rank index, and returns the ranks before and after. */
export type RankMoves = (move: RankMove) => Promise<MovedRanks>;

type Parts = { ranks: RankStore; topics: Topics };

/** The index is memory that is rebuilt when needed: its failure must not refuse a score. */
const unlessAway = async <T>(ask: () => Promise<T>): Promise<T | undefined> => {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  }
};

/** As few as fit: what is committed together comes together. */
const EVERY_MS = 1;

/**
 * Applies changes of a list that come at the same time together: three calls of the rank index. The relay
 * applies them as well; versions make that harmless.
 */
export const createRankMoves = ({ ranks, topics }: Parts): RankMoves =>
  grouped<RankMove, MovedRanks>({
    everyMs: EVERY_MS,
    keyOf: ({ period: { projectId, periodId, ties } }) => `${projectId} ${periodId} ${ties}`,
    run: async (moves) => {
      const { period } = moves[0]!;
      const before = await standingsOf(ranks, period, moves.filter((move) => move.before).map(idOf));
      await applyAll({ ranks, topics }, period, moves);
      const after = await standingsOf(ranks, period, moves.map(idOf));
      const place = (move: RankMove) => placeBefore(ranks, move, before?.get(move.playerId));
      return Promise.all(
        moves.map(async (move) => ({
          rank: after?.get(move.playerId)?.rank ?? null,
          previousRank: move.before && before ? await place(move) : null,
        })),
      );
    },
  });

const idOf = ({ playerId }: RankMove): string => playerId;

const standingsOf = async (
  ranks: RankStore,
  period: PeriodRef,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Standing> | undefined> => {
  const asked = [...new Set(ids)];
  const found = asked.length === 0 ? [] : await unlessAway(() => ranks.standings(period, asked));
  return found && new Map(found.map((standing) => [standing.playerId, standing]));
};

const applyAll = async (
  { ranks, topics }: Parts,
  { projectId, periodId }: PeriodRef,
  moves: readonly RankMove[],
): Promise<void> => {
  const changes = moves.flatMap(({ change }) => (change ? [change] : []));
  const isAny = changes.length > 0;
  const moved = isAny ? await unlessAway(() => ranks.apply(projectId, periodId, changes)) : undefined;
  // The relay will find nothing new, so watchers are notified here.
  if (moved) topics.publish(periodTopic(projectId, periodId), moved);
};

const precedes = (a: Ranked, b: Ranked): boolean =>
  a.rankScore < b.rankScore || (a.rankScore === b.rankScore && a.rankTie < b.rankTie);

const isSame = (a: Ranked, b: Ranked): boolean => a.rankScore === b.rankScore && a.rankTie === b.rankTie;

/**
 * Returns the rank of an entry before its change. Where the relay has been faster, or the index was built
 * from the changed entries, it is counted from what comes after the former place.
 */
const placeBefore = async (
  ranks: RankStore,
  { period, before, change }: RankMove,
  standing: Standing | undefined,
): Promise<number | null> => {
  const former = before!;
  if (standing && isSame(standing, former)) return standing.rank;
  const isByPlace = period.ties === "EARLIEST" || period.ties === "LATEST";
  const place = isByPlace ? former : { ...former, rankTie: 0, playerId: "" };
  const page = await unlessAway(() => ranks.after(period, place, { skip: 0, limit: 1 }));
  if (!page) return null;
  if (period.ties === "DENSE")
    return (await scoresUpTo(ranks, period, page)) - (await ownScore(ranks, period, former));
  const own = change && { playerId: change[0], rankScore: change[1], rankTie: change[2] };
  return rankAt(page, isByPlace) - Number(own !== undefined && precedes(own, place));
};

/** The rank of a place in front of a page. */
const rankAt = ({ standings: [next], total }: RankPage, isByPlace: boolean): number => {
  if (!next) return total + 1;
  return isByPlace ? next.position + 1 : next.rank;
};

/** Where ranks count scores, and not players: one more than the scores before a place. */
const scoresUpTo = async (
  ranks: RankStore,
  period: PeriodRef,
  { standings: [next], total }: RankPage,
): Promise<number> => {
  if (next) return next.rank;
  const last = await unlessAway(() => ranks.page(period, Math.max(0, total - 1), 1));
  return (last?.standings[0]?.rank ?? 0) + 1;
};

/** Returns 1 where the player's new score is before the former one and nobody else's, else 0. */
const ownScore = async (
  ranks: RankStore,
  period: PeriodRef,
  { playerId, rankScore }: Ranked,
): Promise<number> => {
  const near = (await unlessAway(() => ranks.around(period, playerId, 3)))?.standings ?? [];
  const own = near.find((one) => one.playerId === playerId);
  if (!own || own.rankScore >= rankScore) return 0;
  return near.some((one) => one !== own && one.rankScore === own.rankScore) ? 0 : 1;
};
