import { loseGains, scoreHoldings } from "../evaluation/boards/holdings.ts";
import type { PastEvent } from "../evaluation/metrics/count.ts";
import { stepsOf } from "../evaluation/event-accounts.ts";
import { DERIVED_MAX } from "../evaluation/loop-guard.ts";
import type { HoldingName } from "../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import type { Turn } from "../evaluation/turn.ts";
import { refreshSegments } from "../evaluation/segments/membership.ts";
import type { Pieces } from "../kernel/pace.ts";
import { reverseAdventures } from "./adventures/reverse-adventures.ts";
import { awardOfKey, isLost, keepAwards } from "./award-log.ts";
import { rewardOfGoal } from "./goal-rewards.ts";
import type { CausedLine, LostRewards, PlayerRecord, Reversal } from "./record.ts";
import { reverseBadges, reverseFollowed } from "./reverse-badges.ts";
import { type CounterStarts, derivedOf, reverseCounters } from "./reverse-counters.ts";
import { type FiredRules, reverseCaps, reverseFirings, reverseGrants } from "./reverse-firings.ts";
import { reverseHoldings, reverseXp } from "./reverse-ledger.ts";
import { levelOfKey, takeLevelsBack } from "./reverse-levels.ts";
import { type BoardStarts, leaveEmptied, reverseScores } from "./reverse-scores.ts";
import { reverseQuests } from "./quests/reverse-quests.ts";
import { reverseSubmitted } from "./reverse-submitted.ts";
import { reverseStreaks, streakOfKey } from "./reverse-streaks.ts";

export type ReverseContext = {
  rules: FiredRules;
  counterStarts: CounterStarts;
  boardStarts: BoardStarts;
  reversal: Reversal;
};

const STREAK_STEPS = 20;

/** Whether something stays granted, because its reason remains. */
type IsKept = (key: string) => boolean;

/**
 * Reverts what an event has caused for the turn's player, in memory. The turn has the event's own type and
 * time, so that windows are those in which it was counted. No rules are triggered. In pieces.
 */
export function* reversePlayer(turn: PlanTurn, record: PlayerRecord, context: ReverseContext): Pieces<void> {
  const { player, root } = turn;
  const { reversal } = context;
  const xpBefore = player.xp;
  const { ledger, awards: log, emitted } = record;
  yield ledger.length + log.length + emitted.length + STREAK_STEPS * turn.project.streaks.size;
  const past = pastEvents(turn, record);
  yield* reverseCounters(turn, past, {
    starts: context.counterStarts,
    receivedMs: record.event.receivedMs,
    recounted: record.recounted,
    reversal,
  });
  const before = new Map(player.entries);
  reverseSubmitted(turn, record.submitted, reversal);
  reverseFollowed(turn, record, reversal);
  yield* reverseLost(turn, record.lost, reversal);
  const shortened = record.isOwn ? reverseStreaks(turn, record, reversal) : new Set<string>();
  const keptByStreak: IsKept = (key) => {
    const streakKey = streakOfKey(key);
    return streakKey !== undefined && !shortened.has(streakKey);
  };
  const { together, event } = record;
  const keptByBadge: IsKept = (key) => {
    const award = awardOfKey(key);
    return award !== undefined && !isLost(event.id, award, together);
  };
  const keptByGoal = yield* reverseGoals(turn, record, { past, reversal });
  const keptAtFirst: IsKept = (key) => keptByGoal(key) || keptByStreak(key) || keptByBadge(key);
  yield* reverseXp(turn, linesOf(record, "XP", keptAtFirst), reversal);
  const lost = takeLevelsBack(turn, record.emitted, reversal);
  const kept: IsKept = (key) => keptByGoal(key) || keptByStreak(key) || isOfKeptLevel(key, lost);
  keepAwards(log, together.lost, kept);
  const isStanding: IsKept = (key) => kept(key) || keptByBadge(key);
  const awards = log.map((award) => (isStanding(award.key) ? { ...award, isOfEvent: false } : award));
  for (const { key, action, isOfEvent } of awards)
    if (isOfEvent && action === "AWARDED") together.taken.add(key);
  reverseBadges(turn, awards, { followed: record.followed, reversal });
  const isGone = ({ key }: { key: string }) => !isStanding(key);
  const grants = record.grants.filter(isGone);
  yield* reverseHoldings(turn, ledger.filter(isGone), reversal);
  yield* reverseGrants(turn, grants, reversal);
  yield* reverseFirings(turn, record.firings, { rules: context.rules, ledger, grants });
  yield* reverseCaps(turn, ledger, context.rules);
  for (const takeBack of Object.values(BY_ITSELF)) takeBack?.(turn, record);
  yield* reverseScores(turn, past, {
    starts: context.boardStarts,
    receivedMs: record.event.receivedMs,
    others: record.scores,
    reversal,
  });
  for (const key of scoreHoldings(turn.project.boardIndex, turn, xpBefore))
    reversal.left.add(`leaderboard ${key}: its period is closed`);
  leaveEmptied(turn, before, record);
  refreshSegments(turn.project.segmentIndex, turn);
  // A reversal triggers nothing.
  root.derived.length = 0;
  yield stepsOf(root.accounts);
}

/** Reverts what was given for tiers that are lost, each at the time at which it was gained. In pieces. */
function* reverseLost(turn: PlanTurn, lost: readonly LostRewards[], reversal: Reversal): Pieces<void> {
  for (const { atMs, ledger } of lost) {
    const then = { ...turn, event: { ...turn.event, at: atMs } };
    const isXp = ({ asset }: CausedLine): boolean => asset === "XP";
    yield* reverseXp(then, ledger.filter(isXp), reversal);
    yield* reverseHoldings(then, ledger, reversal);
    for (const key of loseGains(turn.project.boardIndex, then))
      reversal.left.add(`leaderboard ${key}: its period is closed`);
  }
}

/** Maximum number of events derived from a tracked event: by itself, and by creating its player. */
const COUNTED_MAX = 2 * DERIVED_MAX;

/** The counted events: the event itself, for its own player, and those derived from it. */
export const pastEvents = (
  { project }: { project: Pick<ProjectPlan, "hasListeners"> },
  { event, emitted, isOwn }: Pick<PlayerRecord, "event" | "emitted" | "isOwn">,
): PastEvent[] => {
  const { type, at, properties } = event;
  const own = isOwn && !type.startsWith("system.") ? [{ type, at, properties }] : [];
  const derived = derivedOf(emitted, at).filter((one) => project.hasListeners(one.type));
  // Events cut off by the loop guard were emitted, but not counted.
  return [...own, ...derived.slice(0, COUNTED_MAX)];
};

/** Takes quests and adventures back. @returns whether a key is that of a reward of them which stays */
function* reverseGoals(
  turn: PlanTurn,
  record: PlayerRecord,
  { past, reversal }: { past: readonly PastEvent[]; reversal: Reversal },
): Pieces<IsKept> {
  yield* reverseQuests(turn, record, { past, reversal });
  yield* reverseAdventures(turn, record, reversal);
  return (key) => {
    const reward = rewardOfGoal(key);
    return reward !== undefined && !record.goals.lost.has(reward);
  };
}

const linesOf = ({ ledger }: PlayerRecord, asset: string, isKept: IsKept): CausedLine[] =>
  ledger.filter((line) => line.asset === asset && !isKept(line.key));

const isOfKeptLevel = (key: string, lost: ReadonlySet<number>): boolean => {
  const level = levelOfKey(key);
  return level !== undefined && !lost.has(level);
};

/**
 * How each kind of holdings is reverted where it depends on nothing else; null: by a step of `reversePlayer`,
 * in its order.
 */
const BY_ITSELF: Readonly<Record<HoldingName, ((turn: Turn, record: PlayerRecord) => void) | null>> = {
  entries: null,
  balances: null,
  lots: null,
  badges: null,
  streaks: null,
  segments: null,
  quests: null,
  adventures: null,
  boosts: (turn, record) => endBoosts(turn, record),
};

const endBoosts = ({ player, emit }: Turn, { event }: PlayerRecord): void => {
  for (const { id, boostKey, applies, cause } of player.boosts.values()) {
    if (cause.rootEventId !== event.id && cause.eventId !== event.id) continue;
    player.boosts.delete(id);
    player.dirty.boosts.add(id);
    const { id: playerId, externalUserId } = player;
    emit("player.boost_ended", { playerId, externalUserId, boostKey, applies, by: "EXPIRED" });
  }
};
