import { otherAwards, revokeBadge, setOtherAwards } from "../evaluation/badges/award.ts";
import type { BadgeState } from "../evaluation/player-state.ts";
import type { Turn } from "../evaluation/turn.ts";
import { limitedKey } from "../evaluation/rewards/shared-keys.ts";
import { standing, timesOf } from "./award-log.ts";
import type { FollowedBadge, LoggedAward, PlayerRecord, Reversal, RevertedTogether } from "./record.ts";

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
  if (tier === 0) revokeBadge(turn, { badgeKey, cause: reversal.cause, key: "" });
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
export const reverseFollowed = (
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

type Falling = { badgeKey: string; tier: number; together: RevertedTogether; reversal: Reversal };

/** Notes what stays of tiers that other events have reached. */
const noteOthers = ({ project, player }: Turn, { badgeKey, tier, together, reversal }: Falling): void => {
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
