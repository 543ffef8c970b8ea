import {
  ALL_MOVED,
  type EntrySource,
  FROZEN_COPIES_MAX,
  FROZEN_KEPT_MS,
  FROZEN_MAX,
  FROZEN_SHARED_MS,
  joinMoved,
  type Moved,
  movedBetween,
  type PeriodRef,
  type Ranked,
  type RankPage,
  type RankStore,
  type Standing,
  type Ties,
} from "../evaluation/boards/ranks.ts";
import { createSizedCache } from "../kernel/caches.ts";
import type { EntryChange } from "../kernel/events/events.ts";
import { newId } from "../kernel/ids.ts";
import { numberStandings, windowStart } from "./open-lists.ts";

/** Maximum number of copies of all projects in one process: a few hundred megabytes in the worst case. */
const COPIES_IN_MEMORY_MAX = 100;

type Copy = { projectId: string; periodId: string; madeAtMs: number; page: RankPage };

/** Frozen copies of boards in this process's memory, oldest first. `read` reads the first places. */
const createFrozenCopies = (
  read: (ref: PeriodRef, limit: number) => Promise<RankPage>,
): Pick<RankStore, "freeze" | "frozen"> => {
  const copies = new Map<string, Copy>();

  const makeRoom = (projectId: string, nowMs: number): void => {
    for (const [token, { madeAtMs }] of copies) if (isOver(madeAtMs, nowMs)) copies.delete(token);
    const own = [...copies].filter(([, copy]) => copy.projectId === projectId);
    if (own.length >= FROZEN_COPIES_MAX) copies.delete(own[0]![0]);
    else if (copies.size >= COPIES_IN_MEMORY_MAX) copies.delete(copies.keys().next().value!);
  };

  return {
    freeze: async (ref, now) => {
      const { projectId, periodId } = ref;
      const nowMs = now.getTime();
      for (const [token, copy] of copies) {
        if (copy.periodId === periodId && Math.abs(nowMs - copy.madeAtMs) <= FROZEN_SHARED_MS) return token;
      }
      const page = await read(ref, FROZEN_MAX);
      makeRoom(projectId, nowMs);
      const token = newId();
      copies.set(token, { projectId, periodId, madeAtMs: nowMs, page });
      return token;
    },
    frozen: async ({ projectId, periodId }, token, { now, offset, limit }) => {
      const copy = copies.get(token);
      if (copy?.projectId !== projectId || copy.periodId !== periodId) return undefined;
      if (isOver(copy.madeAtMs, now.getTime())) return undefined;
      const { standings, total } = copy.page;
      return { standings: standings.slice(offset, offset + limit), total };
    },
  };
};

const isOver = (madeAtMs: number, nowMs: number): boolean => nowMs - madeAtMs > FROZEN_KEPT_MS;

const CHUNK_MAX = 512;

/**
 * A sorted list with access by position: chunks of at most 512 values with a Fenwick tree over the chunk
 * sizes (https://doi.org/10.1002/spe.4380240306). Insert, remove, count and access by position are
 * sub-linear. `compare` must be a total order in which equal values are the same value.
 */
export class OrderedList<T> {
  readonly #compare: (a: T, b: T) => number;
  readonly #chunks: T[][] = [[]];
  /**
   * 1-based prefix sums of chunk sizes; undefined after a chunk was added or removed, until the next count.
   */
  #sums: Int32Array | undefined;
  #size = 0;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#size;
  }

  insert(value: T): void {
    const [at, offset] = this.#locate(value);
    const chunk = this.#chunks[at]!;
    chunk.splice(offset, 0, value);
    this.#size++;
    if (chunk.length <= CHUNK_MAX) {
      this.#adjust(at, 1);
      return;
    }
    this.#chunks.splice(at + 1, 0, chunk.splice(CHUNK_MAX >> 1));
    this.#sums = undefined;
  }

  /** Removes the value that compares equal. @returns whether there was one */
  remove(value: T): boolean {
    const [at, offset] = this.#locate(value);
    const chunk = this.#chunks[at]!;
    const found = chunk[offset];
    if (found === undefined || this.#compare(found, value) !== 0) return false;
    chunk.splice(offset, 1);
    this.#size--;
    if (chunk.length > 0 || this.#chunks.length === 1) {
      this.#adjust(at, -1);
      return true;
    }
    this.#chunks.splice(at, 1);
    this.#sums = undefined;
    return true;
  }

  /** Returns how many values come before `value`, which need not be in the list. */
  countBefore(value: T): number {
    const [at, offset] = this.#locate(value);
    const sums = this.#prefixSums();
    let count = offset;
    for (let i = at; i > 0; i -= i & -i) count += sums[i]!;
    return count;
  }

  /** Returns up to `limit` values from the 0-based position `start` on. */
  range(start: number, limit: number): T[] {
    const sums = this.#prefixSums();
    let at = 0;
    let rest = start;
    for (let step = 2 ** Math.floor(Math.log2(this.#chunks.length)); step >= 1; step /= 2) {
      if (at + step < sums.length && sums[at + step]! <= rest) {
        at += step;
        rest -= sums[at]!;
      }
    }
    const values: T[] = [];
    for (; at < this.#chunks.length && values.length < limit; at++, rest = 0) {
      const chunk = this.#chunks[at]!;
      for (let i = rest; i < chunk.length && values.length < limit; i++) values.push(chunk[i]!);
    }
    return values;
  }

  /** Returns chunk and offset of the first value that does not come before `value`. */
  #locate(value: T): [chunk: number, offset: number] {
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      const chunk = chunks[middle]!;
      if (this.#compare(chunk[chunk.length - 1]!, value) < 0) low = middle + 1;
      else high = middle;
    }
    const chunk = chunks[low]!;
    let from = 0;
    let to = chunk.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#compare(chunk[middle]!, value) < 0) from = middle + 1;
      else to = middle;
    }
    return [low, from];
  }

  #adjust(at: number, change: 1 | -1): void {
    const sums = this.#sums;
    if (sums === undefined) return;
    for (let i = at + 1; i < sums.length; i += i & -i) sums[i]! += change;
  }

  #prefixSums(): Int32Array {
    if (this.#sums) return this.#sums;
    const sums = new Int32Array(this.#chunks.length + 1);
    for (let i = 1; i < sums.length; i++) {
      sums[i]! += this.#chunks[i - 1]!.length;
      const parent = i + (i & -i);
      if (parent < sums.length) sums[parent]! += sums[i]!;
    }
    this.#sums = sums;
    return sums;
  }
}

type Member = Ranked & { version: number };

const compareMembers = (a: Ranked, b: Ranked): number =>
  a.rankScore - b.rankScore ||
  a.rankTie - b.rankTie ||
  (a.playerId < b.playerId ? -1 : a.playerId > b.playerId ? 1 : 0);

/**
 * One period's ranking in memory, ordered by (rankScore, rankTie, playerId). Setting and every kind of rank
 * are sub-linear: SHARED counts entries before a score, DENSE counts distinct scores before it.
 */
export class RankIndex {
  readonly #members = new OrderedList<Ranked>(compareMembers);
  readonly #byPlayer = new Map<string, Member>();
  /** Versions of hidden entries, which an older, delayed one must not restore. */
  readonly #hidden = new Map<string, number>();
  /** Distinct scores with their number of holders; built for the first DENSE rank, then maintained. */
  #distinct: DistinctScores | undefined;

  get size(): number {
    return this.#byPlayer.size;
  }

  /**
   * Sets a player's values. @returns the range of scores in which ranks have changed; undefined, without any
   * change, when this version or a newer one is known
   */
  set([playerId, rankScore, rankTie, version, isHidden = false]: EntryChange): Moved | undefined {
    if (this.#versionOf(playerId) >= version) return undefined;
    const before = this.#leave(playerId);
    if (isHidden) this.#hidden.set(playerId, version);
    else this.#enter({ playerId, rankScore, rankTie, version });
    const moved = movedBetween(before, isHidden ? undefined : rankScore);
    // A score that appears or disappears moves the DENSE ranks of all after it.
    return this.#distinct && moved ? { ...moved, to: null } : moved;
  }

  #versionOf(playerId: string): number {
    return this.#byPlayer.get(playerId)?.version ?? this.#hidden.get(playerId) ?? -1;
  }

  /** @returns the score that the player had */
  #leave(playerId: string): number | undefined {
    const member = this.#byPlayer.get(playerId);
    if (!member) return undefined;
    this.#members.remove(member);
    this.#distinct?.remove(member.rankScore);
    this.#byPlayer.delete(playerId);
    return member.rankScore;
  }

  #enter(member: Member): void {
    this.#hidden.delete(member.playerId);
    this.#byPlayer.set(member.playerId, member);
    this.#members.insert(member);
    this.#distinct?.add(member.rankScore);
  }

  standing(playerId: string, ties: Ties): Standing | undefined {
    const member = this.#byPlayer.get(playerId);
    if (!member) return undefined;
    const position = this.#members.countBefore(member);
    const { rankScore, rankTie } = member;
    return { playerId, rankScore, rankTie, position, rank: this.#rank(rankScore, position, ties) };
  }

  page(offset: number, limit: number, ties: Ties): RankPage {
    const members = this.#members.range(offset, limit).map(({ playerId, rankScore, rankTie }) => ({
      playerId,
      rankScore,
      rankTie,
    }));
    const first = members[0];
    const rank = first ? this.#rank(first.rankScore, offset, ties) : 0;
    return { standings: numberStandings({ ties, position: offset, rank }, members), total: this.size };
  }

  /** Returns places after `place`, which may no longer exist. */
  after(place: Ranked, { skip, limit }: { skip: number; limit: number }, ties: Ties): RankPage {
    const held = this.#byPlayer.get(place.playerId);
    const isTaken = held !== undefined && compareMembers(held, place) === 0;
    return this.page(this.#members.countBefore(place) + Number(isTaken) + skip, limit, ties);
  }

  around(playerId: string, limit: number, ties: Ties): RankPage | undefined {
    const member = this.#byPlayer.get(playerId);
    if (!member) return undefined;
    return this.page(windowStart(this.#members.countBefore(member), this.size, limit), limit, ties);
  }

  #rank(rankScore: number, position: number, ties: Ties): number {
    if (ties === "EARLIEST" || ties === "LATEST") return position + 1;
    if (ties === "SHARED")
      return this.#members.countBefore({ rankScore, rankTie: -Infinity, playerId: "" }) + 1;
    this.#distinct ??= distinctScores(this.#byPlayer.values());
    return this.#distinct.countBefore(rankScore) + 1;
  }
}

type DistinctScores = {
  add(score: number): void;
  remove(score: number): void;
  countBefore(score: number): number;
};

const distinctScores = (members: Iterable<Ranked>): DistinctScores => {
  const scores = new OrderedList<number>((a, b) => a - b);
  const holders = new Map<number, number>();
  const add = (score: number): void => {
    const count = holders.get(score) ?? 0;
    if (count === 0) scores.insert(score);
    holders.set(score, count + 1);
  };
  const remove = (score: number): void => {
    const count = holders.get(score)! - 1;
    if (count > 0) {
      holders.set(score, count);
      return;
    }
    holders.delete(score);
    scores.remove(score);
  };
  for (const { rankScore } of members) add(rankScore);
  return { add, remove, countBefore: (score) => scores.countBefore(score) };
};

/** Maximum number of periods in memory; one that is evicted is rebuilt on demand. */
export const PERIODS_IN_MEMORY_MAX = 1_000;

type Build = { index: RankIndex; done: Promise<void> };

/** `current` serves reads; `next` is being built; `queued` is a rebuild that waits for `next` to end. */
type Period = { current?: RankIndex; next?: Build; queued?: Promise<void> };

/**
 * The rank index in this process's memory. A period is loaded from `source` on its first read; concurrent
 * readers wait for the same build. Entries that are applied during a build go into it as well; versions
 * settle which value is newer. Entries for a period that nobody has read are dropped: they were committed
 * before they got here, so a later build reads them.
 */
export const createMemoryRanks = (source: EntrySource): RankStore => {
  const periods = createSizedCache<Period>({ items: PERIODS_IN_MEMORY_MAX });

  const periodOf = (ref: PeriodRef): Period => {
    const key = keyOf(ref);
    return periods.get(key) ?? periods.keep(key, {}, { owner: ref.projectId });
  };

  const build = (ref: PeriodRef, period: Period): Promise<void> => {
    const index = new RankIndex();
    const fill = async (): Promise<void> => {
      try {
        for await (const entries of source(ref.projectId, ref.periodId))
          for (const entry of entries) index.set(entry);
        period.current = index;
      } finally {
        delete period.next;
      }
    };
    const done = fill();
    period.next = { index, done };
    return done;
  };

  const read = async (ref: PeriodRef): Promise<RankIndex> => {
    const period = periodOf(ref);
    if (!period.current) await (period.next?.done ?? build(ref, period));
    return period.current!;
  };

  const rebuild = (ref: PeriodRef): Promise<void> => {
    const period = periodOf(ref);
    if (!period.next) return build(ref, period);
    // The current build may have read past the data that the caller needs: one more after it, for all waiting
    // callers.
    period.queued ??= (async () => {
      while (period.next) await period.next.done.catch(() => undefined);
      delete period.queued;
      await build(ref, period);
    })();
    return period.queued;
  };

  return {
    apply: async (projectId, periodId, entries) => {
      const { current, next } = periods.get(keyOf({ projectId, periodId })) ?? {};
      for (const entry of entries) next?.index.set(entry);
      if (!current) return ALL_MOVED;
      return entries.map((entry) => current.set(entry)).reduce(joinMoved, undefined);
    },
    ...readsOf(read),
    ...createFrozenCopies(async (ref, limit) => (await read(ref)).page(0, limit, ref.ties)),
    rebuild,
    drop: async (projectId, periodId) => void periods.drop(keyOf({ projectId, periodId })),
    reached: async () => undefined,
  };
};

type Reads = Pick<RankStore, "page" | "around" | "standing" | "standings" | "after">;

const readsOf = (read: (ref: PeriodRef) => Promise<RankIndex>): Reads => ({
  page: async (ref, offset, limit) => (await read(ref)).page(offset, limit, ref.ties),
  around: async (ref, playerId, limit) => (await read(ref)).around(playerId, limit, ref.ties),
  standing: async (ref, playerId) => (await read(ref)).standing(playerId, ref.ties),
  standings: async (ref, playerIds) => {
    const index = await read(ref);
    return playerIds.flatMap((playerId) => index.standing(playerId, ref.ties) ?? []);
  },
  after: async (ref, place, range) => (await read(ref)).after(place, range, ref.ties),
});

const keyOf = ({ projectId, periodId }: Pick<PeriodRef, "projectId" | "periodId">): string =>
  `${projectId}:${periodId}`;
