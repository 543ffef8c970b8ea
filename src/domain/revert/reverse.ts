import { otherAwards, revokeBadge, setOtherAwards } from "../evaluation/badges/award.ts";
import { loseGains, scoreHoldings } from "../evaluation/boards/holdings.ts";
import { leaveList } from "../evaluation/boards/lists.ts";
import type { PastEvent } from "../evaluation/metrics/count.ts";
import type { BadgeState, EntryState, HoldingName } from "../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import { limitedKey } from "../evaluation/rewards/shared-keys.ts";
import { refreshSegments } from "../evaluation/segments/membership.ts";
import { DERIVED_MAX, type Turn } from "../evaluation/turn.ts";
import type { Steps } from "../kernel/slices.ts";
import { reverseAdventures } from "./adventures/outcome.ts";
import { type CounterStarts, derivedOf, reverseCounters } from "./counters-without.ts";
import { reverseQuests } from "./quests/reverse-quests.ts";
import { rewardOfGoal } from "./read-record.ts";
import { withoutParts } from "./read-submitted.ts";
import {
  awardOfKey,
  type CausedEvent,
  type CausedLine,
  type FollowedBadge,
  isLost,
  keepAwards,
  type LoggedAward,
  type LostRewards,
  type PlayerRecord,
  type Reversal,
  type RevertedTogether,
  standing,
  type SubmittedScores,
  timesOf,
} from "./record.ts";
import {
  type BoardStarts,
  type FiredRules,
  isFrom,
  leaveEmptied,
  reverseCaps,
  reverseFirings,
  reverseGrants,
  reverseScores,
} from "./reverse-scores.ts";
import { reverseHoldings, reverseStreaks, reverseXp, streakOfKey } from "./reverse-streaks.ts";

/** What remains of a badge. */
type Remaining = { tier: number; times: number; serialNo: number | null; others: number };

type Held = { followed: FollowedBadge | undefined; state: BadgeState; notByProgress: number };

/**
 * Returns what remains of a badge without the event's awards; undefined when the event awarded none.
 * @param followed what the counter says that the badge follows; its own awards then do not matter
 */
const remainingOf = (
  log: readonly LoggedAward[],
  { followed, state, notByProgress }: Held,
): Remaining | undefined => {
  const awards = standing(log);
  if (!awards.some(({ isOfEvent }) => isOfEvent)) return undefined;
  const others = awards.filter(({ isOfEvent, isByCounter }) => !isOfEvent && !(followed && isByCounter));
  const tier = Math.max(followed?.tier ?? 0, ...others.map((one) => one.tier));
  if (followed) return { tier, times: state.timesAwarded, serialNo: state.serialNo, others: notByProgress };
  const fewer = timesOf(awards) - timesOf(others);
  const times = Math.max(tier > 0 ? 1 : 0, state.timesAwarded - fewer);
  // What an event awarded by progress that is no counter's cannot be told from what it awarded by hand.
  return { tier, times, serialNo: others.at(-1)?.serialNo ?? null, others: notByProgress - fewer };
};

/**
 * Reverts the event's awards: the tiers that are based on them alone, and how often the badge was awarded. A
 * badge that something else has awarded too keeps the tier of that.
 */
export const reverseBadges = (
  turn: Turn,
  awards: readonly LoggedAward[],
  { followed, reversal }: { followed: PlayerRecord["followed"]; reversal: Reversal },
): void => {
  for (const [badgeKey, log] of Map.groupBy(awards, (award) => award.badgeKey)) {
    noteRevoked(log, reversal);
    const state = turn.player.badges.get(badgeKey);
    const notByProgress = otherAwards(turn.player, badgeKey);
    const held = state && { followed: followed.get(badgeKey), state, notByProgress };
    const remaining = held && remainingOf(log, held);
    if (!remaining || (state.tier <= remaining.tier && state.timesAwarded <= remaining.times)) continue;
    const serials = standing(log).flatMap(({ isOfEvent, serialNo }) =>
      isOfEvent && serialNo !== null && serialNo !== remaining.serialNo ? [serialNo] : [],
    );
    take(turn, badgeKey, { ...remaining, tier: Math.min(remaining.tier, state.tier), serials, reversal });
  }
};

/** Notes what is not undone of revocations: those by the event, and of awards of it. */
const noteRevoked = (log: readonly LoggedAward[], reversal: Reversal): void => {
  const last = log.findLastIndex(({ action, isReversal }) => action === "REVOKED" && !isReversal);
  for (const [i, { action, badgeKey, isOfEvent }] of log.entries()) {
    if (!isOfEvent) continue;
    if (action === "REVOKED") reversal.left.add(`badge ${badgeKey}: that it was revoked`);
    else if (i < last) reversal.left.add(`badge ${badgeKey}: what it gave before it was revoked`);
  }
};

type Fall = Remaining & { serials: readonly number[]; reversal: Reversal };

const take = (turn: Turn, badgeKey: string, fall: Fall): void => {
  const { tier, times, serialNo, others, serials, reversal } = fall;
  const { player } = turn;
  reversal.badges.add(badgeKey);
  giveNumbersBack(turn, badgeKey, { serials, reversal });
  const before = player.badges.get(badgeKey)!;
  if (tier === 0) revokeBadge(turn, { badgeKey, cause: reversal.cause });
  const state = player.badges.get(badgeKey)!;
  const earned = times === 0 ? { firstEarnedMs: null, lastEarnedMs: null } : {};
  player.badges.set(badgeKey, { ...state, ...earned, tier, timesAwarded: times, serialNo });
  player.dirty.badges.add(badgeKey);
  setOtherAwards(player, badgeKey, Math.max(0, Math.min(others, times)));
  // Otherwise the rewards of what is earned again would have the ledger keys of the reverted ones.
  const { r = {} } = player.doc;
  player.doc = { ...player.doc, r: { ...r, [`b:${badgeKey}`]: (r[`b:${badgeKey}`] ?? 0) + 1 } };
  player.dirty.doc = true;
  if (tier === 0 || tier === before.tier) return;
  const { id: playerId, externalUserId } = player;
  turn.emit("player.badge_revoked", {
    playerId,
    externalUserId,
    badgeKey,
    tier: before.tier,
    cause: reversal.cause,
  });
};

/** Only the number that was assigned last can be reused: numbers must be unique. */
const giveNumbersBack = (
  { shared, project }: Turn,
  badgeKey: string,
  { serials, reversal }: Pick<Fall, "serials" | "reversal">,
): void => {
  const counter = limitedKey(project.projectId, "badge", badgeKey);
  if (!shared.has(counter)) return;
  for (const serialNo of [...new Set(serials)].toSorted((a, b) => b - a)) {
    if (shared.used(counter) === serialNo) shared.add(counter, -1);
    else reversal.left.add(`number ${serialNo} of badge ${badgeKey}`);
  }
};

/** Lowers badges that follow a counter of the event to the tiers that they have without it. */
const reverseFollowed = (
  turn: Turn,
  { followed, together }: Pick<PlayerRecord, "followed" | "together">,
  reversal: Reversal,
): void => {
  for (const [badgeKey, { tier, progress, times }] of followed) {
    const before = turn.player.badges.get(badgeKey);
    if (!before) continue;
    const isFalling = before.tier > tier || before.timesAwarded > times;
    if (isFalling) {
      noteOthers(turn, { badgeKey, tier, together, reversal });
      takeFollowed(turn, badgeKey, { before, tier: Math.min(before.tier, tier), times, reversal });
    }
    // A badge that has all its tiers no longer follows the counter upwards.
    if (progress >= before.progress && !isFalling) continue;
    turn.player.badges.set(badgeKey, { ...turn.player.badges.get(badgeKey)!, progress });
    turn.player.dirty.badges.add(badgeKey);
  }
};

type Followed = { before: BadgeState; tier: number; times: number; reversal: Reversal };

const takeFollowed = (turn: Turn, badgeKey: string, { before, tier, times, reversal }: Followed): void => {
  const { serialNo, timesAwarded } = before;
  const isGone = tier === 0;
  const fewer = Math.min(timesAwarded, times);
  // Which awards had the other numbers is not known.
  if (serialNo !== null && fewer < timesAwarded - (isGone ? 1 : 0))
    reversal.left.add(`numbers of badge ${badgeKey}`);
  const serials = isGone && serialNo !== null ? [serialNo] : [];
  const others = otherAwards(turn.player, badgeKey);
  take(turn, badgeKey, { tier, times: fewer, serialNo: isGone ? null : serialNo, others, serials, reversal });
};

/** What is taken back of a tier's rewards. */
const TAKEN_BACK: ReadonlySet<string> = new Set(["xp", "currencies", "lives", "rewards"]);

type Falling = {
  badgeKey: string;
  tier: number;
  together: Pick<RevertedTogether, "awards">;
  reversal: Reversal;
};

/** Notes what stays of tiers that other events have reached. */
export const noteOthers = (
  { project, player }: Turn,
  { badgeKey, tier, together, reversal }: Falling,
): void => {
  const own = together.awards.filter((award) => award.badgeKey === badgeKey);
  const others = (project.badges.get(badgeKey)?.definition.tiers ?? []).filter(
    (one) => one.tier > tier && one.tier <= player.badges.get(badgeKey)!.tier && !own.some(isOf(one)),
  );
  if (others.length === 0) return;
  if (project.hasListeners("player.badge_earned"))
    reversal.left.add(`badge ${badgeKey}: what was triggered by its being earned`);
  for (const { rewards } of others)
    for (const [name, value] of Object.entries(rewards))
      if (!TAKEN_BACK.has(name) && value !== undefined && JSON.stringify(value) !== "[]")
        reversal.left.add(`badge ${badgeKey}: ${name} given`);
};

const isOf =
  ({ tier }: { tier: number }) =>
  (award: LoggedAward): boolean =>
    award.tier === tier;

const LEVEL_KEY = /^lvl:(\d+)[:~]/;

/** Returns the level whose reward a ledger, award or grant key belongs to. */
const levelOfKey = (key: string): number | undefined => {
  const match = LEVEL_KEY.exec(key);
  return match ? Number(match[1]) : undefined;
};

/**
 * Reverts levels that the event reached and the player no longer has: their rewards are taken back, and can
 * be given again. A level that stays keeps its reward.
 */
const takeLevelsBack = (
  { player }: Turn,
  emitted: readonly CausedEvent[],
  reversal: Reversal,
): ReadonlySet<number> => {
  const reached = emitted
    .filter(({ type }) => type === "player.level_up")
    .flatMap(({ data }) => {
      const { previousLevel, newLevel } = data as { previousLevel: number; newLevel: number };
      return Array.from({ length: newLevel - previousLevel }, (_, i) => previousLevel + 1 + i);
    });
  const lost = reached.filter((level) => level > player.level);
  if (lost.length < reached.length) reversal.left.add(`level ${player.level}, with what it gave`);
  const { v, r = {} } = player.doc;
  // Another event has been rewarded for a higher level since: lower levels keep their rewards.
  if (lost.length === 0 || v === undefined || Math.max(...lost) < v) return new Set();
  const again = { ...r };
  for (const level of lost) again[level] = (again[level] ?? 0) + 1;
  player.doc = { ...player.doc, v: Math.min(...lost) - 1, r: again };
  player.dirty.doc = true;
  return new Set(lost);
};

/** Takes scores back that rules have submitted for the event. */
const reverseSubmitted = (turn: Turn, submitted: readonly SubmittedScores[], reversal: Reversal): void => {
  for (const one of submitted) {
    const { listId, board } = one;
    const entry = turn.player.entries.get(listId);
    const status = turn.player.lists.get(listId)?.status ?? "OPEN";
    if (!board) reversal.left.add("a score submitted to a leaderboard that is not active");
    else if (status !== "OPEN") reversal.left.add(`leaderboard ${board.key}: its period is closed`);
    else if (entry) takeScoreBack(turn, { ...one, board, entry }, reversal);
  }
};

type Standing = SubmittedScores & { board: NonNullable<SubmittedScores["board"]>; entry: EntryState };

const takeScoreBack = (turn: Turn, place: Standing, reversal: Reversal): void => {
  const { player } = turn;
  const { listId, board, other } = place;
  const next = isLast(place) ? null : nextOf(place);
  if (next === undefined) reversal.left.add(`leaderboard ${board.key}: other scores than the one reverted`);
  else reversal.scores.add(board.key);
  if (next === null) return leaveList(player, listId);
  const entry = withoutCounts(next ?? place.entry, place);
  if (next?.rankScore === 0 && other === undefined && isAdding(place))
    reversal.left.add(`leaderboard ${board.key}: a place with 0`);
  player.entries.set(listId, { ...entry, version: entry.version + 1 });
  player.dirty.entries.add(listId);
};

const isAdding = ({ board: { operator } }: Standing): boolean => operator === "SUM" || operator === "DECR";

/** Whether nothing has scored besides; on boards that add up, once all reverted events are taken back. */
const isLast = (place: Standing): boolean =>
  place.other === null && (!isAdding(place) || place.entry.recorded === place.scores.length);

/** Returns the entry without the scores; undefined where it is one of them, and the others are not known. */
const nextOf = (place: Standing): EntryState | undefined => {
  const { board, entry, scores, other } = place;
  if (isAdding(place)) return { ...entry, rankScore: withoutParts(board, entry.rankScore, scores) };
  if (other) return { ...entry, ...other };
  const stands = scores.some(([, rankScore, atUs]) => isFrom(board, entry, { rankScore, at: atUs / 1_000 }));
  return stands ? undefined : entry;
};

const withoutCounts = (entry: EntryState, { scores }: Standing): EntryState => {
  const { recorded, submissions } = entry;
  return {
    ...entry,
    ...(recorded === undefined ? {} : { recorded: Math.max(0, recorded - scores.length) }),
    ...(submissions === undefined ? {} : { submissions: Math.max(0, submissions - scores.length) }),
  };
};

export type ReverseContext = {
  rules: FiredRules;
  counterStarts: CounterStarts;
  boardStarts: BoardStarts;
  reversal: Reversal;
};

/** Whether something stays granted, because its reason remains. */
type IsKept = (key: string) => boolean;

/**
 * Reverts what an event has caused for the turn's player, in memory. The turn has the event's own type and
 * time, so that windows are those in which it was counted. No rules are triggered. In pieces.
 */
export function* reversePlayer(turn: PlanTurn, record: PlayerRecord, context: ReverseContext): Steps<void> {
  const { player, root } = turn;
  const { reversal } = context;
  const xpBefore = player.xp;
  const { ledger, awards: log } = record;
  yield;
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
}

/** Reverts what was given for tiers that are lost, each at the time at which it was gained. In pieces. */
export function* reverseLost(turn: PlanTurn, lost: readonly LostRewards[], reversal: Reversal): Steps<void> {
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
): Steps<IsKept> {
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
