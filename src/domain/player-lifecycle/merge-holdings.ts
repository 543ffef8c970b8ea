import { awardReached, badgeStateOf, otherAwards, setOtherAwards } from "../evaluation/badges/award.ts";
import { addToLots, BALANCE_MAX, expireLots, takeFromLots, touch } from "../evaluation/currencies/adjust.ts";
import type { Cause, MergeStrategy } from "../kernel/events/events.ts";
import type { MergeSummary } from "../kernel/events/shapes.ts";
import { newId } from "../kernel/ids.ts";
import { appendLedger } from "../evaluation/ledger/append.ts";
import { currentLives, showLives } from "../evaluation/lives/lives.ts";
import { publish } from "../evaluation/emit.ts";
import type { Steps } from "../kernel/slices.ts";
import { type Turn, write } from "../evaluation/turn.ts";
import type { BadgeState, BalanceState } from "../evaluation/player-state.ts";
import type { PlanTurn } from "../evaluation/project-plan.ts";
import { grantXp, XP_MAX } from "../evaluation/xp/xp.ts";

/** Two players being merged. Effects on the source go to its own stream. */
export type Merging = {
  target: PlanTurn;
  source: PlanTurn;
  mergeId: string;
  strategy: MergeStrategy;
  cause: Cause;
  summary: MergeSummary;
};

const REASON = "merge";

/** Returns the target's gain of something that both have. */
const gainOf = (how: MergeStrategy["xp"], target: number, source: number): number => {
  if (how === "KEEP_TARGET") return 0;
  return how === "SUM" ? source : Math.max(0, source - target);
};

/**
 * Merges XP by strategy; the level of the sum is reached, and rewards only levels for which neither was
 * rewarded.
 */
export const mergeXp = ({ target, source, mergeId, strategy, cause, summary }: Merging): void => {
  const before = { target: target.player.xp, source: source.player.xp };
  const key = `mrg:${mergeId}:xp`;
  const gain = Math.min(XP_MAX - before.target, gainOf(strategy.xp, before.target, before.source));
  const rewarded = Math.max(rewardedLevel(target), rewardedLevel(source));
  if (rewarded > target.player.level) {
    target.player.doc = { ...target.player.doc, v: rewarded };
    target.player.dirty.doc = true;
  }
  grantXp(target, { amount: gain, cause, key, reason: REASON });
  grantXp(source, { amount: -before.source, cause, key, reason: REASON });
  source.player.level = 1;
  summary.xp = { ...before, result: target.player.xp };
};

const rewardedLevel = ({ player: { doc, level } }: Turn): number => Math.max(level, doc.v ?? 0);

/**
 * Merges balances by strategy, with the lots that make them up; amounts beyond a currency's maximum are lost.
 * In pieces.
 */
export function* mergeCurrencies(merging: Merging): Steps<void> {
  const { target, source } = merging;
  for (const key of source.player.balances.keys()) {
    yield;
    const currency = target.project.currencies.get(key);
    if (currency) touch(target, currency);
    expireLots(target, key);
    expireLots(source, key);
    mergeCurrency(merging, key, currency?.maxBalance ?? BALANCE_MAX);
  }
}

const NOTHING: BalanceState = { balance: 0, held: 0, earned: 0, spent: 0 };

const mergeCurrency = (merging: Merging, key: string, max: number): void => {
  const { target, source, strategy, summary } = merging;
  const [mine, theirs] = [target.player.balances.get(key) ?? NOTHING, source.player.balances.get(key)!];
  const wanted = gainOf(strategy.currencies, mine.balance, theirs.balance);
  const gain = Math.min(wanted, Math.max(0, max - mine.balance));
  moveLots(merging, key, theirs.balance - gain);
  const balance = mine.balance + gain;
  if (gain > 0 || strategy.currencies === "SUM") {
    const isSum = strategy.currencies === "SUM";
    const earned = capped(mine.earned + (isSum ? theirs.earned : gain));
    const spent = capped(mine.spent + (isSum ? theirs.spent + wanted - gain : 0));
    target.player.balances.set(key, { ...mine, balance, earned, spent });
    target.player.dirty.balances.add(key);
  }
  addLine(merging, target, { key, amount: gain, balance });
  addLine(merging, source, { key, amount: -theirs.balance, balance: 0 });
  source.player.balances.set(key, NOTHING);
  summary.currencies[key] = { target: mine.balance, source: theirs.balance, result: balance };
  if (gain < wanted) summary.clamped[key] = wanted - gain;
};

const capped = (amount: number): number => Math.min(BALANCE_MAX, amount);

/** @param left the amount that is not moved; it is deducted from what expires first */
const moveLots = ({ target, source }: Merging, key: string, left: number): void => {
  takeFromLots(source.player, key, left);
  const lots = (source.player.lots.get(key) ?? []).filter(({ remaining }) => remaining > 0);
  const gains = lots.map(({ remaining: amount, expiresMs }) => ({ amount, expiresMs }));
  if (gains.length > 0) addToLots(target.player, key, gains);
};

type Line = { key: string; amount: number; balance: number };

const addLine = ({ mergeId, cause }: Merging, turn: Turn, { key, amount, balance }: Line): void => {
  if (amount === 0) return;
  const entry = appendLedger(turn, {
    asset: "CURRENCY",
    currencyKey: key,
    amount,
    balanceAfter: balance,
    reason: REASON,
    key: `mrg:${mergeId}:currency:${key}`,
    cause,
    txId: mergeId,
  });
  if (amount < 0) return;
  const { id: playerId, externalUserId } = turn.player;
  const ref = { playerId, externalUserId, currencyKey: key, ledgerEntryId: entry.id };
  turn.emit("player.currency_granted", { ...ref, amount, balance, expiresAt: null, cause });
};

/** Merges lives: the higher number of the two, and the longer time of unlimited ones. */
export const mergeLives = (merging: Merging): void => {
  const { target, source, mergeId, cause, summary } = merging;
  const [mine, theirs] = [currentLives(target), currentLives(source)];
  const until = laterOf(target.player.lives.unlimitedUntilMs, source.player.lives.unlimitedUntilMs);
  const taken = (theirs ?? -1) > (mine ?? -1) ? source.player.lives : target.player.lives;
  target.player.lives = { ...taken, unlimitedUntilMs: until };
  source.player.lives = { count: null, anchorMs: null, unlimitedUntilMs: null };
  if (mine === undefined || theirs === undefined) return;
  const result = Math.max(mine, theirs);
  summary.lives = { target: mine, source: theirs, result };
  const key = `mrg:${mergeId}:lives`;
  const line = { asset: "LIVES", reason: REASON, key, cause, txId: mergeId } as const;
  if (theirs > 0) appendLedger(source, { ...line, amount: -theirs, balanceAfter: 0 });
  if (result === mine) return;
  // Recorded as of now: a player who never used a life has the initial ones, by the source's age.
  target.player.lives = { ...taken, count: result, anchorMs: target.nowMs, unlimitedUntilMs: until };
  appendLedger(target, { ...line, amount: result - mine, balanceAfter: result });
  const lives = showLives(target.project.settings.lives, target.player, target.nowMs)!;
  const { id: playerId, externalUserId } = target.player;
  publish(target, "player.lives_changed", { playerId, externalUserId, delta: result - mine, lives, cause });
};

const laterOf = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.max(a, b);

/**
 * Merges the badges of both; of a common one the higher tier and the further progress are kept. In pieces.
 */
export function* mergeBadges(merging: Merging): Steps<void> {
  const { target, source, summary } = merging;
  for (const [key, theirs] of source.player.badges) {
    yield;
    const mine = badgeStateOf(target, key);
    const definition = target.project.badges.get(key)?.definition;
    const merged = joined(mine, theirs, definition?.repeatable === true);
    if (definition?.repeatable) {
      const byProgress = [
        mine.timesAwarded - otherAwards(target.player, key),
        theirs.timesAwarded - otherAwards(source.player, key),
      ] as const;
      // Counters are added up, while of other progress the further one is kept.
      const due = definition.progressMetric ? byProgress[0] + byProgress[1] : Math.max(...byProgress);
      setOtherAwards(target.player, key, merged.timesAwarded - due);
    }
    target.player.badges.set(key, merged);
    target.player.dirty.badges.add(key);
    if (merged.tier <= mine.tier) continue;
    summary.badges.push({ badgeKey: key, tier: merged.tier });
    announceBadge(merging, key, { mine, merged });
  }
}

const joined = (mine: BadgeState, theirs: BadgeState, isRepeatable: boolean): BadgeState => {
  // A revoked badge is restored, which counts as an award: its tiers' rewards are named by the count.
  const isBack = mine.tier === 0 && mine.timesAwarded > 0 && theirs.tier > 0;
  const times = [mine.timesAwarded + (isBack ? 1 : 0), theirs.timesAwarded] as const;
  const tier = Math.max(mine.tier, theirs.tier);
  return {
    tier,
    progress: Math.max(mine.progress, theirs.progress),
    timesAwarded: isRepeatable ? times[0] + times[1] : Math.max(...times),
    serialNo: mine.serialNo ?? theirs.serialNo,
    firstEarnedMs: earlierOf(mine.firstEarnedMs, theirs.firstEarnedMs),
    lastEarnedMs: laterOf(mine.lastEarnedMs, theirs.lastEarnedMs),
    revokedMs: tier > 0 ? null : laterOf(mine.revokedMs, theirs.revokedMs),
  };
};

const earlierOf = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.min(a, b);

/**
 * Sets the progress of badges that follow a counter to the merged one, and awards what it reaches: tiers that
 * neither had. In pieces.
 */
export function* followMergedCounters({ target, mergeId, cause, summary }: Merging): Steps<void> {
  for (const [badgeKey, { definition }] of target.project.badges) {
    yield;
    if (!definition.progressMetric) continue;
    const before = badgeStateOf(target, badgeKey).tier;
    awardReached(target, badgeKey, { cause, key: `mrg:${mergeId}:bdg:${badgeKey}` });
    const { tier } = badgeStateOf(target, badgeKey);
    if (tier === before) continue;
    summary.badges = [...summary.badges.filter((badge) => badge.badgeKey !== badgeKey), { badgeKey, tier }];
  }
}

type BadgeChange = { mine: BadgeState; merged: BadgeState };

/**
 * Writes one line to the log of awards, and emits one event: the badge's rewards were given to the source.
 */
const announceBadge = (
  { target, mergeId, cause }: Merging,
  badgeKey: string,
  { mine, merged }: BadgeChange,
): void => {
  const { id: playerId, externalUserId, projectId } = target.player;
  const { tier, serialNo, timesAwarded } = merged;
  const award = { badgeKey, tier, action: "AWARDED" as const, cause, eventId: null, serialNo };
  write(target, "badgeAwards", {
    ...award,
    id: newId(),
    projectId,
    playerId,
    key: `mrg:${mergeId}:${badgeKey}`,
  });
  const badge = target.project.badges.get(badgeKey);
  if (!badge) return;
  const { name, rarity } = badge.definition;
  const about = { badgeKey, badgeId: badge.id, name, rarity, previousTier: mine.tier };
  target.emit("player.badge_earned", {
    playerId,
    externalUserId,
    ...about,
    tier,
    serialNo,
    timesAwarded,
    cause,
  });
};
