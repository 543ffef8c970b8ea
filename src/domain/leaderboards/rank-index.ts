import type { EntryChange } from "../kernel/events/events.ts";
import { type Moved, movedBetween } from "../evaluation/boards/moved.ts";
import { OrderedList } from "./ordered-list.ts";
import type { Ranked, RankPage, Standing, Ties } from "../evaluation/boards/ranks.ts";
import { numberStandings, windowStart } from "./standings.ts";

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
