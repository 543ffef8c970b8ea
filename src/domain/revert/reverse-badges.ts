import { revokeBadge } from "../evaluation/badges/award.ts";
import type { Turn } from "../evaluation/turn.ts";
import { limitedKey } from "../evaluation/rewards/shared-keys.ts";
import type { FollowedBadge, LoggedAward, PlayerRecord, Reversal, RevertedTogether } from "./record.ts";

const BADGE_KEY = /^bdg:([^:]+):\d+:(\d+)/;

/** Returns the badge and the tier whose reward a ledger, award or grant key belongs to. */
export const tierOfKey = (key: string): { badgeKey: string; tier: number } | undefined => {
  const [, badgeKey, tier] = BADGE_KEY.exec(key) ?? [];
  return badgeKey === undefined ? undefined : { badgeKey, tier: Number(tier) };
};

/** Returns the awards that a badge is based on: those since it was last revoked. */
const standing = (log: readonly LoggedAward[]): LoggedAward[] =>
  log.slice(log.findLastIndex(({ action }) => action === "REVOKED") + 1);

/**
 * Returns the tier that a badge has without the event's awards; undefined when the event awarded none.
 * @param followed what the counter says that the badge follows; its own awards then do not matter
 */
const tierWithout = (
  log: readonly LoggedAward[],
  followed: FollowedBadge | undefined,
): number | undefined => {
  const awards = standing(log);
  if (!awards.some(({ isOfEvent }) => isOfEvent)) return undefined;
  const others = awards.filter(({ isOfEvent, isByCounter }) => !isOfEvent && !(followed && isByCounter));
  return Math.max(followed?.tier ?? 0, ...others.map(({ tier }) => tier));
};

/**
 * Reverts the tiers of badges that are based on the event's awards alone. A badge that something else has
 * awarded too keeps the tier of that.
 * @returns the remaining tier of each badge that fell, by its key
 */
export const reverseBadges = (
  turn: Turn,
  awards: readonly LoggedAward[],
  { followed, reversal }: { followed: PlayerRecord["followed"]; reversal: Reversal },
): Map<string, number> => {
  const fallen = new Map<string, number>();
  for (const [badgeKey, log] of Map.groupBy(awards, (award) => award.badgeKey)) {
    const tier = tierWithout(log, followed.get(badgeKey));
    const state = turn.player.badges.get(badgeKey);
    if (tier === undefined || !state || state.tier <= tier) continue;
    take(turn, badgeKey, { tier, reversal });
    fallen.set(badgeKey, tier);
  }
  return fallen;
};

const take = (turn: Turn, badgeKey: string, fall: { tier: number; reversal: Reversal }): void => {
  const { tier, reversal } = fall;
  reversal.badges.add(badgeKey);
  if (tier > 0) return lower(turn, badgeKey, fall);
  const { serialNo } = turn.player.badges.get(badgeKey)!;
  giveBackNumber(turn, badgeKey, { serialNo, reversal });
  revokeBadge(turn, { badgeKey, cause: reversal.cause, key: "" });
};

const lower = (
  { player, emit }: Turn,
  badgeKey: string,
  { tier, reversal: { cause } }: { tier: number; reversal: Reversal },
): void => {
  const state = player.badges.get(badgeKey)!;
  player.badges.set(badgeKey, { ...state, tier });
  player.dirty.badges.add(badgeKey);
  // Otherwise the rewards of a tier that is earned again would have the ledger keys of the reverted ones.
  const { r = {} } = player.doc;
  player.doc = { ...player.doc, r: { ...r, [`b:${badgeKey}`]: (r[`b:${badgeKey}`] ?? 0) + 1 } };
  player.dirty.doc = true;
  const { id: playerId, externalUserId } = player;
  emit("player.badge_revoked", { playerId, externalUserId, badgeKey, tier: state.tier, cause });
};

/** Only the number that was assigned last can be reused: numbers must be unique. */
const giveBackNumber = (
  { shared, project }: Turn,
  badgeKey: string,
  { serialNo, reversal }: { serialNo: number | null; reversal: Reversal },
): void => {
  const counter = limitedKey(project.projectId, "badge", badgeKey);
  if (serialNo === null || !shared.has(counter)) return;
  if (shared.used(counter) === serialNo) shared.add(counter, -1);
  else reversal.left.add(`number ${serialNo} of badge ${badgeKey}`);
};

/** Lowers badges that follow a counter of the event to the tiers that they have without it. */
export const reverseFollowed = (
  turn: Turn,
  { followed, together }: Pick<PlayerRecord, "followed" | "together">,
  reversal: Reversal,
): Map<string, number> => {
  const tiers = new Map<string, number>();
  for (const [badgeKey, { tier, progress }] of followed) {
    const before = turn.player.badges.get(badgeKey);
    if (!before) continue;
    const isFalling = before.tier > tier;
    if (isFalling) {
      noteOthers(turn, { badgeKey, tier, together, reversal });
      take(turn, badgeKey, { tier, reversal });
    }
    tiers.set(badgeKey, Math.min(before.tier, tier));
    // A badge that has all its tiers no longer follows the counter upwards.
    if (progress >= before.progress && !isFalling) continue;
    turn.player.badges.set(badgeKey, { ...turn.player.badges.get(badgeKey)!, progress });
    turn.player.dirty.badges.add(badgeKey);
  }
  return tiers;
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
