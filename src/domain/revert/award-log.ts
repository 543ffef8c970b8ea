import type { FollowedBadge, LoggedAward, RevertedTogether } from "./record.ts";

/** An award as the keys of its rewards name it. */
export type AwardOfKey = { badgeKey: string; times: number; tier: number };

const BADGE_KEY = /^bdg:([^:]+):(\d+):(\d+)/;
/** Keys of awards end with the same numbers as those of their rewards. */
const NUMBERS = /:(\d+):(\d+)$/;

/** Returns the award whose reward a ledger, award or grant key belongs to. */
export const awardOfKey = (key: string): AwardOfKey | undefined => {
  const [, badgeKey, times, tier] = BADGE_KEY.exec(key) ?? [];
  return badgeKey === undefined ? undefined : { badgeKey, times: Number(times), tier: Number(tier) };
};

/** Names an award of an event. */
export const awardName = (eventId: string, { badgeKey, times, tier }: AwardOfKey): string =>
  `${eventId} ${badgeKey}:${times}:${tier}`;

const nameOf = (eventId: string, { badgeKey, tier, key }: LoggedAward): string =>
  awardName(eventId, { badgeKey, tier, times: Number(NUMBERS.exec(key)?.[1] ?? 0) });

/** Returns the awards that a badge is based on: those since it was last revoked. */
export const standing = <T extends LoggedAward>(log: readonly T[]): T[] =>
  log.slice(log.findLastIndex(({ action }) => action === "REVOKED") + 1);

/** Returns the awards that raised the tier, in the order of time. */
const raises = (awards: readonly LoggedAward[]): LoggedAward[] => {
  let highest = 0;
  return awards.filter(({ tier }) => {
    if (tier <= highest) return false;
    highest = tier;
    return true;
  });
};

/** Returns how often awards have awarded the badge: raising a tier that is held is none. */
export const timesOf = (awards: readonly LoggedAward[]): number => {
  const read = awards.filter(({ others }) => others === 0).length;
  const countOf = (isByCounter: boolean): number =>
    awards.find((one) => one.others > 0 && one.isByCounter === isByCounter)?.others ?? 0;
  const all = read + countOf(true) + countOf(false);
  return all === 0 ? 0 : all - (raises(awards).length - 1);
};

/**
 * Returns the tiers on the way to one of the awards whose rewards an award of another event has given, which
 * was reverted: without that, this award would have given them.
 * @param counted the tier that the counter gives, wherever it found it held
 */
const givenOnTheWay = (awards: readonly LoggedAward[], counted: number): Set<number> => {
  const tiers = new Set<number>();
  let highest = 0;
  for (const { tier } of raises(awards)) {
    for (let below = highest + 1; below < tier; below++) tiers.add(below);
    highest = tier;
  }
  for (let below = highest + 1; below <= counted; below++) tiers.add(below);
  return tiers;
};

/** Returns the awards that are left of a badge without some. */
export const without = <T extends LoggedAward>(
  awards: readonly T[],
  followed: FollowedBadge | undefined,
): T[] =>
  awards.filter(({ isOfEvent, isByCounter, tier }) =>
    followed && isByCounter ? tier <= followed.tier : !isOfEvent,
  );

type Following = { followed: FollowedBadge | undefined; held: number };

/** What awards give without those of the events. */
export type LostAwards = {
  /** Awards of the events whose rewards are taken back, as `awardName` names them. */
  lost: ReadonlySet<string>;
  /** Tiers whose rewards events have given that were reverted before, and that nothing needs any more. */
  tiers: readonly number[];
};

/**
 * Determines which awards of a badge lose their rewards with the events: all that these have given, but for
 * tiers that others would have given on the way to theirs.
 * @param log of one badge
 */
export const lostAwards = (log: readonly LoggedAward[], { followed, held }: Following): LostAwards => {
  const awards = standing(log);
  const before = givenOnTheWay(awards, followed ? held : 0);
  const after = givenOnTheWay(without(awards, followed), followed?.tier ?? 0);
  const needed = new Set([...after].filter((tier) => !before.has(tier)));
  const lost = new Set<string>();
  for (const award of awards) {
    if (!award.isOfEvent || (followed && award.isByCounter)) continue;
    if (!needed.delete(award.tier)) lost.add(nameOf(award.eventId!, award));
  }
  return { lost, tiers: [...before].filter((tier) => !after.has(tier)) };
};

/** Whether the rewards of an event's award are taken back. */
export const isLost = (
  eventId: string,
  award: AwardOfKey,
  { lost, followed }: Pick<RevertedTogether, "lost" | "followed">,
): boolean => {
  if (lost.has(awardName(eventId, award))) return true;
  const { tier, times } = followed.get(award.badgeKey) ?? { tier: Infinity, times: Infinity };
  return award.tier > tier || award.times > times;
};

/** Keeps the rewards of awards that were themselves rewards of something that is kept. */
export const keepAwards = (
  awards: readonly LoggedAward[],
  lost: Set<string>,
  isKept: (key: string, eventId: string) => boolean,
): void => {
  for (const award of awards)
    if (award.isOfEvent && isKept(award.key, award.eventId!)) lost.delete(nameOf(award.eventId!, award));
};
