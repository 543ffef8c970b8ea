import type { Events } from "../../kernel/events/domain-events.ts";
import type { Standing } from "../../evaluation/boards/ranks.ts";
import { fromRankScore } from "../../evaluation/boards/scoring.ts";
import type { NoticeList } from "./notice-lists.ts";
import type { SeenRanks } from "./seen-ranks.ts";
import { type Lead, leadChange, type Significance, significanceOf } from "./significance.ts";

/** A player and the list's record of notices to them; ranks and times are null before the first. */
export type NotifiedPlayer = {
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  rank: number | null;
  previousRank: number | null;
  notifiedAtMs: number | null;
  dueAtMs: number | null;
};

/** The list's new record. */
export type Remembered = Pick<
  NotifiedPlayer,
  "playerId" | "rank" | "previousRank" | "notifiedAtMs" | "dueAtMs"
>;

export type Decision = {
  list: NoticeList;
  remembered: Remembered[];
  /** The newly announced leader, if that changes. */
  leader: Lead | undefined;
  changes: Events["leaderboard.rank_changed"][];
  newLeader: Events["leaderboard.new_leader"] | undefined;
};

const boardPeriodOf = ({ leaderboardKey, leaderboardId, periodKey, board }: NoticeList) => ({
  leaderboardKey,
  leaderboardId,
  periodKey,
  board,
});

/** Decides which notices of a list are sent, to whom, and which wait until a player may get another one. */
export const decide = (
  seen: SeenRanks,
  known: ReadonlyMap<string, NotifiedPlayer>,
  nowMs: number,
): Decision => {
  const remembered: Remembered[] = [];
  const changes: Events["leaderboard.rank_changed"][] = [];
  for (const one of known.values()) {
    const standing = seen.standings.get(one.playerId);
    const { next, change } = standing
      ? judgeStanding(seen, one, { standing, nowMs })
      : { next: withoutDue(one), change: undefined };
    if (next) remembered.push(next);
    if (change) changes.push(change);
  }
  return { list: seen.list, remembered, changes, ...decideLeader(seen, known) };
};

type Judged = {
  next: Remembered | undefined;
  change: Events["leaderboard.rank_changed"] | undefined;
};

const NOTHING: Judged = { next: undefined, change: undefined };

/** Clears a pending notice that has become obsolete. */
const withoutDue = (one: NotifiedPlayer): Remembered | undefined =>
  one.dueAtMs === null ? undefined : remember(one, { dueAtMs: null });

const remember = (
  { playerId, rank, previousRank, notifiedAtMs, dueAtMs }: NotifiedPlayer,
  values: Partial<Remembered>,
): Remembered => ({ playerId, rank, previousRank, notifiedAtMs, dueAtMs, ...values });

const judgeStanding = (
  seen: SeenRanks,
  one: NotifiedPlayer,
  at: { standing: Standing; nowMs: number },
): Judged => {
  const { list, changed } = seen;
  const { rank } = at.standing;
  const hasChanged = changed.has(one.playerId);
  const found = significanceOf(list.rule, one.rank, rank);
  if (one.rank === null) {
    // A player whom others have moved before the first evaluation had entered some time ago.
    if (found && hasChanged) return issue(seen, one, { ...at, found });
    return { ...NOTHING, next: remember(one, { rank, dueAtMs: null }) };
  }
  // A player whom others have moved is notified only at the edges of bands; a pending notice stays.
  if (!hasChanged && found?.reason !== "BAND") return NOTHING;
  return found ? issue(seen, one, { ...at, found }) : { ...NOTHING, next: withoutDue(one) };
};

/** Issues a notice, or defers it until the player may get another one. */
const issue = (
  { list, participants }: SeenRanks,
  one: NotifiedPlayer,
  { standing, nowMs, found }: { standing: Standing; nowMs: number; found: Significance },
): Judged => {
  const dueAtMs = (one.notifiedAtMs ?? -Infinity) + list.rule.debounceSeconds * 1_000;
  if (dueAtMs > nowMs)
    return { ...NOTHING, next: one.dueAtMs === dueAtMs ? undefined : remember(one, { dueAtMs }) };
  const { playerId, externalUserId, rank: previousRank } = one;
  return {
    next: { playerId, rank: standing.rank, previousRank, notifiedAtMs: nowMs, dueAtMs: null },
    change: {
      playerId,
      externalUserId,
      ...boardPeriodOf(list),
      previousRank,
      newRank: standing.rank,
      direction: found.direction,
      score: fromRankScore(list.scoring, standing.rankScore),
      crossed: found.crossed,
      participants,
      reason: found.reason,
    },
  };
};

const decideLeader = (
  { list, first, standings }: SeenRanks,
  known: ReadonlyMap<string, NotifiedPlayer>,
): Pick<Decision, "leader" | "newLeader"> => {
  const { named, scoring, ref } = list;
  const still = named && standings.get(named.playerId);
  const change = leadChange(ref.ties, { named, still, first });
  const leader = change && known.get(change.leader.playerId);
  if (!leader) return { leader: undefined, newLeader: undefined };
  if (!change.isAnnounced) return { leader: change.leader, newLeader: undefined };
  const score = fromRankScore(scoring, change.leader.rankScore);
  const before = named && known.get(named.playerId);
  const scoreBefore = named && fromRankScore(scoring, (still ?? named).rankScore);
  const newLeader = {
    ...boardPeriodOf(list),
    leader: {
      playerId: leader.playerId,
      externalUserId: leader.externalUserId,
      displayName: leader.displayName,
      score,
    },
    previousLeader: before
      ? { playerId: before.playerId, externalUserId: before.externalUserId, score: scoreBefore! }
      : null,
    margin: before ? marginOf(score, scoreBefore!, scoring.scoreDecimals) : null,
  };
  return { leader: change.leader, newLeader };
};

/** The lead over the other score, without the noise of binary fractions. */
const marginOf = (score: number, other: number, decimals: number): number =>
  Number(Math.abs(score - other).toFixed(decimals));
