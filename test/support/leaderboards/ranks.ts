import assert from "node:assert/strict";
import {
  type EntrySource,
  mayHaveMoved,
  type Moved,
  type Standing,
} from "../../../src/domain/evaluation/boards/ranks.ts";
import type { EntryChange } from "../../../src/domain/kernel/events/events.ts";
import type { EventData } from "../../../src/domain/kernel/events/domain-events.ts";
import { DEFAULT_RANK_CHANGE } from "../../../src/domain/evaluation/boards/definition.ts";
import { significanceOf } from "../../../src/domain/leaderboards/notices/notice-lists.ts";

/** Whoever stands elsewhere than before had a score within what was said to have moved. */
export const checkMoved = (
  [before, after]: readonly [before: readonly Standing[], after: readonly Standing[]],
  moved: Moved | undefined,
): void => {
  const standings = new Map(after.map((standing) => [standing.playerId, standing]));
  for (const { playerId, rank, rankScore } of before) {
    const now = standings.get(playerId);
    if (now?.rank === rank && now.rankScore === rankScore) continue;
    const text = `${playerId}: ${rank} (${rankScore}) to ${now?.rank}, moved ${JSON.stringify(moved)}`;
    assert.ok(moved && mayHaveMoved(moved, rankScore), text);
  }
  if (after.some(({ playerId }) => !before.some((one) => one.playerId === playerId))) assert.ok(moved);
};

/** The rows that `leaderboard_entries` would hold; a read is a snapshot of each page when it is read. */
export const aTruth = () => {
  const rows = new Map<string, EntryChange>();
  const truth = { rows, reads: 0, beforePage: async (): Promise<void> => undefined };
  const source: EntrySource = async function* () {
    truth.reads++;
    let after = "";
    for (;;) {
      await truth.beforePage();
      const page = [...rows.values()]
        .filter(([id]) => id > after)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .slice(0, 150);
      yield page;
      if (page.length < 150) return;
      after = page.at(-1)![0];
    }
  };
  return { truth, source };
};

/** Commits an entry with the next version and answers what the relay would apply. */
export const commit = (
  rows: Map<string, EntryChange>,
  playerId: string,
  rankScore: number,
  rankTie = 0,
): EntryChange => {
  const entry: EntryChange = [playerId, rankScore, rankTie, (rows.get(playerId)?.[3] ?? 0) + 1];
  rows.set(playerId, entry);
  return entry;
};

export const aPlayerId = (n: number): string => `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;

export type RankChanged = EventData<"leaderboard.rank_changed">;

/** One told change, as short as a test compares it. */
export type ToldChange = [user: string, from: number | null, to: number, reason: RankChanged["reason"]];

type Score = { score: number; atMs: number };
type Told = { rank: number | null; atMs: number | null; isPending: boolean };

/**
 * What players ought to be told of a board with ties EARLIEST, by looking at everybody after every change:
 * who has changed is told whatever is significant, the others of edges of bands only.
 */
export class NoticeModel {
  readonly #scores = new Map<string, Score>();
  readonly #told = new Map<string, Told>();
  readonly #order: (a: string, b: string) => number;
  leader: { user: string; score: number } | undefined;

  /** @param order of players with the same score since the same moment */
  constructor(order: (a: string, b: string) => number) {
    this.#order = order;
  }

  ranking(): string[] {
    return [...this.#scores]
      .toSorted(([a, x], [b, y]) => y.score - x.score || x.atMs - y.atMs || this.#order(a, b))
      .map(([user]) => user);
  }

  set(user: string, score: number, atMs: number): void {
    const held = this.#scores.get(user);
    this.#scores.set(user, { score, atMs: held?.score === score ? held.atMs : atMs });
  }

  scoreOf(user: string): number {
    return this.#scores.get(user)!.score;
  }

  /** Who leads now, where that is news. */
  newLeader(): string | undefined {
    const first = this.ranking()[0]!;
    const before = this.leader?.user;
    if (first === before) return undefined;
    if (before !== undefined && this.scoreOf(first) === this.scoreOf(before)) return undefined;
    this.leader = { user: first, score: this.scoreOf(first) };
    return first;
  }

  /** What is told after the entries of `changed` have changed. */
  step(changed: ReadonlySet<string>, nowMs: number): ToldChange[] {
    const out: ToldChange[] = [];
    for (const [i, user] of this.ranking().entries())
      out.push(...this.#look(user, i + 1, { hasChanged: changed.has(user), nowMs }));
    return out.toSorted();
  }

  /** What is told when those who had to wait are looked at again. */
  sweep(nowMs: number): ToldChange[] {
    const due = [...this.#told].filter(
      ([, { isPending, atMs }]) => isPending && atMs! + DEFAULT_RANK_CHANGE.debounceSeconds * 1_000 <= nowMs,
    );
    return due.length === 0 ? [] : this.step(new Set(due.map(([user]) => user)), nowMs);
  }

  #look(
    user: string,
    rank: number,
    { hasChanged, nowMs }: { hasChanged: boolean; nowMs: number },
  ): ToldChange[] {
    const held = this.#told.get(user) ?? { rank: null, atMs: null, isPending: false };
    const isKnown = held.rank !== null;
    const found = significanceOf(DEFAULT_RANK_CHANGE, held.rank, rank);
    if (isKnown && !hasChanged && found?.reason !== "BAND") return [];
    if (!found) {
      this.#told.set(user, { ...held, rank: held.rank ?? rank, isPending: false });
      return [];
    }
    if (isEarly(held, nowMs)) {
      this.#told.set(user, { ...held, isPending: true });
      return [];
    }
    this.#told.set(user, { rank, atMs: nowMs, isPending: false });
    return [[user, held.rank, rank, found.reason]];
  }
}

const isEarly = ({ atMs }: Told, nowMs: number): boolean =>
  atMs !== null && atMs + DEFAULT_RANK_CHANGE.debounceSeconds * 1_000 > nowMs;
