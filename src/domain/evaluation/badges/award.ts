import { type Badge, type CompiledBadge, PROGRESS_MAX } from "./badge.ts";
import type { BadgeAwardRow } from "../effects.ts";
import { metricId } from "../metrics/compile.ts";
import { readMetric } from "../metrics/count.ts";
import type { BadgeState, PlayerState } from "../player-state.ts";
import type { CompiledDefinitions } from "../project-settings.ts";
import { grantBundle, limitedKey } from "../rewards/shared-keys.ts";
import { causeOf, playerOf, type Turn, write } from "../turn.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";

/** Why a badge was not awarded, progressed or revoked; undefined when it was (or already had been). */
export type BadgeProblem =
  | "UNKNOWN_BADGE"
  | "UNKNOWN_TIER"
  | "NOT_AVAILABLE"
  | "SOLD_OUT"
  | "NOT_HELD"
  | "FOLLOWS_METRIC";

/** `tier` defaults to 1. `key` is deterministic and identifies the award in the log. */
type BadgeAward = { badgeKey: string; tier?: number | undefined; cause: Cause; key: string };

/** Maximum awards of a repeatable badge by one change of progress; the rest follow with later progress. */
const REPEATS_MAX = 100;

const NONE: BadgeState = {
  tier: 0,
  progress: 0,
  timesAwarded: 0,
  serialNo: null,
  firstEarnedMs: null,
  lastEarnedMs: null,
  revokedMs: null,
};

export const badgeStateOf = ({ player }: Pick<Turn, "player">, badgeKey: string): BadgeState =>
  player.badges.get(badgeKey) ?? NONE;

const setState = ({ player }: Turn, badgeKey: string, state: BadgeState): void => {
  player.badges.set(badgeKey, state);
  player.dirty.badges.add(badgeKey);
};

/** Returns how many awards of a repeatable badge its progress did not bring. */
export const otherAwards = ({ doc: { h = {} } }: Pick<PlayerState, "doc">, badgeKey: string): number =>
  Object.hasOwn(h, badgeKey) ? h[badgeKey]! : 0;

export const setOtherAwards = (player: PlayerState, badgeKey: string, times: number): void => {
  if (times === otherAwards(player, badgeKey)) return;
  player.doc = { ...player.doc, h: { ...player.doc.h, [badgeKey]: times } };
  player.dirty.doc = true;
};

/** The cause of an award, and the beginning of its key in the log. */
type Why = { cause: Cause; key: string };

const findBadge = (turn: Turn, badgeKey: string): CompiledBadge | BadgeProblem => {
  const badge = turn.project.badges.get(badgeKey);
  if (!badge) return "UNKNOWN_BADGE";
  const { at } = turn.event;
  return at < badge.fromMs || at >= badge.untilMs ? "NOT_AVAILABLE" : badge;
};

/**
 * Awards a tier (never lowers): `player.badge_earned` for each tier reached, and its rewards. A tier that is
 * held already is awarded again if the badge is repeatable, and otherwise left unchanged.
 */
export const awardBadge = (
  turn: Turn,
  { badgeKey, tier = 1, ...why }: BadgeAward,
): BadgeProblem | undefined => {
  const badge = findBadge(turn, badgeKey);
  if (typeof badge === "string") return badge;
  if (tier > badge.definition.tiers.length) return "UNKNOWN_TIER";
  const before = badgeStateOf(turn, badgeKey);
  const { repeatable } = badge.definition;
  if (before.tier >= tier && !repeatable) return heldSince(turn, badge, tier);
  const problem = before.tier < tier ? reachTier(turn, badge, tier, why) : repeatTier(turn, badge, tier, why);
  const times = badgeStateOf(turn, badgeKey).timesAwarded - before.timesAwarded;
  if (repeatable) setOtherAwards(turn.player, badgeKey, otherAwards(turn.player, badgeKey) + times);
  return problem;
};

const earlierOf = (ms: number | null, at: number): number => Math.min(ms ?? Infinity, at);
const laterOf = (ms: number | null, at: number): number => Math.max(ms ?? -Infinity, at);

/** An event that comes late would have awarded sooner what is held: the badge is held since then. */
const heldSince = (turn: Turn, { definition: { key } }: CompiledBadge, tier: number): undefined => {
  const { at } = turn.event;
  const before = badgeStateOf(turn, key);
  const { firstEarnedMs: first, lastEarnedMs: last } = before;
  const firstEarnedMs = earlierOf(first, at);
  const lastEarnedMs = tier === before.tier ? earlierOf(last, at) : last;
  if (firstEarnedMs !== first || lastEarnedMs !== last)
    setState(turn, key, { ...before, firstEarnedMs, lastEarnedMs });
};

/** Takes the next serial number of a limited edition; null where there is no limit. */
const takeSerial = (
  turn: Turn,
  { definition: { key, maxAwards } }: CompiledBadge,
): number | null | "SOLD_OUT" => {
  if (maxAwards === undefined) return null;
  const counter = limitedKey(turn.project.projectId, "badge", key);
  const used = turn.shared.used(counter);
  if (used >= maxAwards) return "SOLD_OUT";
  turn.shared.add(counter, 1);
  return used + 1;
};

/** Raises the tier to `tier`, with an award for each one on the way. */
const reachTier = (turn: Turn, badge: CompiledBadge, tier: number, why: Why): BadgeProblem | undefined => {
  const { key } = badge.definition;
  const before = badgeStateOf(turn, key);
  const isNew = before.tier === 0;
  const serialNo = isNew ? takeSerial(turn, badge) : before.serialNo;
  if (serialNo === "SOLD_OUT") return serialNo;
  const { at } = turn.event;
  setState(turn, key, {
    ...before,
    tier,
    serialNo,
    timesAwarded: before.timesAwarded + (isNew ? 1 : 0),
    firstEarnedMs: earlierOf(before.firstEarnedMs, at),
    lastEarnedMs: badge.definition.repeatable ? laterOf(before.lastEarnedMs, at) : at,
    revokedMs: null,
  });
  for (let reached = before.tier + 1; reached <= tier; reached++)
    publishAward(turn, badge, { tier: reached, previousTier: reached - 1 }, why);
  return undefined;
};

/** Awards a tier that is held already once more. */
const repeatTier = (turn: Turn, badge: CompiledBadge, tier: number, why: Why): BadgeProblem | undefined => {
  const { key } = badge.definition;
  const before = badgeStateOf(turn, key);
  const serialNo = takeSerial(turn, badge);
  if (serialNo === "SOLD_OUT") return serialNo;
  const timesAwarded = before.timesAwarded + 1;
  setState(turn, key, {
    ...before,
    timesAwarded,
    serialNo: serialNo ?? before.serialNo,
    firstEarnedMs: earlierOf(before.firstEarnedMs, turn.event.at),
    lastEarnedMs: laterOf(before.lastEarnedMs, turn.event.at),
  });
  publishAward(turn, badge, { tier, previousTier: before.tier }, why);
  return undefined;
};

/**
 * Returns the key of what an award has, by its number and a name. What was removed by a reversal can be
 * earned, rewarded and revoked again.
 */
const keyOf = ({ player }: Turn, badgeKey: string, name: number | string): string => {
  const reversals = player.doc.r?.[`b:${badgeKey}`];
  const key = `bdg:${badgeKey}:${player.badges.get(badgeKey)!.timesAwarded}:${name}`;
  return reversals === undefined ? key : `${key}~${reversals}`;
};

/** Logs and publishes one award, and grants the tier's rewards. */
const publishAward = (
  turn: Turn,
  { id: badgeId, definition }: CompiledBadge,
  { tier, previousTier }: { tier: number; previousTier: number },
  { cause, key }: Why,
): void => {
  const { key: badgeKey, name, rarity } = definition;
  const { serialNo, timesAwarded } = badgeStateOf(turn, badgeKey);
  logAward(turn, {
    badgeKey,
    tier,
    action: "AWARDED",
    serialNo,
    key: `${key}:${timesAwarded}:${tier}`,
    cause,
  });
  turn.emit("player.badge_earned", {
    ...playerOf(turn),
    badgeKey,
    badgeId,
    name,
    tier,
    previousTier,
    rarity,
    serialNo,
    timesAwarded,
    cause,
  });
  grantBundle(turn, {
    bundle: definition.tiers[tier - 1]!.rewards,
    cause: { ...causeOf(turn, "BADGE", badgeKey), refId: badgeId },
    key: keyOf(turn, badgeKey, tier),
    reason: `badge:${badgeKey}`,
  });
};

type Logged = Omit<BadgeAwardRow, "id" | "projectId" | "playerId" | "eventId">;

const logAward = (turn: Turn, logged: Logged): void => {
  const { player, root } = turn;
  write(turn, "badgeAwards", {
    id: newId(),
    projectId: player.projectId,
    playerId: player.id,
    eventId: root.isTracked ? root.id : null,
    ...logged,
  });
};

type BadgeProgress = { badgeKey: string; amount: number; cause: Cause; key: string };

/** Adds progress, and awards tiers whose threshold is reached. */
export const progressBadge = (turn: Turn, progress: BadgeProgress): BadgeProblem | undefined => {
  const badge = findBadge(turn, progress.badgeKey);
  if (typeof badge === "string") return badge;
  if (badge.definition.progressMetric) return "FOLLOWS_METRIC";
  return setProgress(turn, badge, badgeStateOf(turn, progress.badgeKey).progress + progress.amount, progress);
};

/** Sets progress to a value, and awards tiers that it reaches. Lower progress revokes nothing. */
const setProgress = (turn: Turn, badge: CompiledBadge, value: number, why: Why): BadgeProblem | undefined => {
  const { key } = badge.definition;
  const before = badgeStateOf(turn, key);
  const progress = Math.min(PROGRESS_MAX, Math.max(0, value));
  if (progress !== before.progress) setState(turn, key, { ...before, progress });
  return awardDue(turn, badge, why);
};

/**
 * Awards what a player has reached of a badge by no event, as the next progress would: after an edit of the
 * badge or a merge of players.
 */
export const awardReached = (turn: Turn, badgeKey: string, why: Why): void => {
  const badge = findBadge(turn, badgeKey);
  if (typeof badge === "string" || turn.player.status !== "ACTIVE") return;
  const { progressMetric } = badge.definition;
  if (progressMetric && isDone(turn, badge)) return;
  const metric = progressMetric && turn.project.metrics.byId.get(metricId(progressMetric));
  const progress = metric ? readMetric(turn, metric) : badgeStateOf(turn, badgeKey).progress;
  if (progress !== undefined) setProgress(turn, badge, progress, why);
};

/** Returns the highest tier whose threshold progress meets; 0 for none. */
export const dueTier = ({ tiers }: Pick<Badge, "tiers">, progress: number): number =>
  tiers.findLastIndex(({ threshold }) => threshold !== undefined && threshold <= progress) + 1;

/** Awards the tiers that progress has reached, and a repeatable badge as often as it is due. */
const awardDue = (turn: Turn, badge: CompiledBadge, why: Why): BadgeProblem | undefined => {
  const { key, tiers, repeatable } = badge.definition;
  const { progress, tier } = badgeStateOf(turn, key);
  const due = dueTier(badge.definition, progress);
  const problem = due > tier ? reachTier(turn, badge, due, why) : undefined;
  const top = tiers.at(-1)!.threshold;
  if (problem !== undefined || !repeatable || top === undefined || due < tiers.length) return problem;
  // What was begun by hand and completed by progress is one award, by progress.
  if (due > tier && tier > 0)
    setOtherAwards(turn.player, key, Math.max(0, otherAwards(turn.player, key) - 1));
  return repeatDue(turn, badge, Math.floor(progress / top), why);
};

const repeatDue = (turn: Turn, badge: CompiledBadge, times: number, why: Why): BadgeProblem | undefined => {
  const { key, tiers } = badge.definition;
  const { timesAwarded } = badgeStateOf(turn, key);
  const missing = Math.min(REPEATS_MAX, times - timesAwarded + otherAwards(turn.player, key));
  for (let n = 0; n < missing; n++) {
    const problem = repeatTier(turn, badge, tiers.length, why);
    if (problem !== undefined) return problem;
  }
  return undefined;
};

/**
 * Revokes a badge with all its tiers and its progress: `player.badge_revoked`. Rewards of its tiers are kept.
 * A badge that follows a metric is not awarded again by it, unless a reversal revoked it.
 */
export const revokeBadge = (
  turn: Turn,
  { badgeKey, cause }: { badgeKey: string; cause: Cause },
): BadgeProblem | undefined => {
  const { player } = turn;
  const before = player.badges.get(badgeKey);
  if (!before && !turn.project.badges.has(badgeKey)) return "UNKNOWN_BADGE";
  if (!before || before.tier === 0) return "NOT_HELD";
  const { tier, serialNo } = before;
  const revokedMs = cause.kind === "REVERSAL" ? null : turn.event.at;
  setState(turn, badgeKey, { ...before, tier: 0, progress: 0, serialNo: null, revokedMs });
  // Progress begins anew, and so do its awards; a reversal takes back what it takes by itself.
  if (cause.kind !== "REVERSAL" && turn.project.badges.get(badgeKey)?.definition.repeatable)
    setOtherAwards(player, badgeKey, before.timesAwarded);
  // A badge is revoked once for each time it was awarded from nothing, so this key is unique.
  const key = keyOf(turn, badgeKey, "revoked");
  logAward(turn, { badgeKey, tier, action: "REVOKED", serialNo, key, cause });
  turn.emit("player.badge_revoked", { ...playerOf(turn), badgeKey, tier, cause });
  return undefined;
};

/** Indexes the badges that follow a counter by its id. */
export const indexFollowers = (
  badges: CompiledDefinitions["badges"],
): CompiledDefinitions["badgesByMetric"] => {
  const following = [...badges.values()].flatMap((badge) =>
    badge.metrics.map((metric) => ({ badge, id: metricId(metric) })),
  );
  const byId = Map.groupBy(following, ({ id }) => id);
  return new Map([...byId].map(([id, followers]) => [id, followers.map(({ badge }) => badge)]));
};

/** Returns whether more events of the metric change nothing: all tiers are held, or the badge was revoked. */
const isDone = (turn: Turn, { definition: { key, tiers, repeatable } }: CompiledBadge): boolean => {
  const { tier, revokedMs } = badgeStateOf(turn, key);
  return revokedMs !== null || (!repeatable && tier >= tiers.length);
};

/** Step 5 of evaluation: sets the progress of badges that follow a metric of this event's type. */
export const followMetrics = (turn: Turn): void => {
  const { project, player, event } = turn;
  if (project.badgesByMetric.size === 0 || player.status !== "ACTIVE") return;
  for (const metric of project.metrics.forEvent(event.type)) {
    const followers = project.badgesByMetric.get(metric.id);
    const value = followers && readMetric(turn, metric);
    if (!followers || value === undefined) continue;
    for (const badge of followers) follow(turn, badge, value);
  }
};

const follow = (turn: Turn, badge: CompiledBadge, value: number): void => {
  const { at } = turn.event;
  if (at < badge.fromMs || at >= badge.untilMs || isDone(turn, badge)) return;
  const { key } = badge.definition;
  const { root } = turn;
  const cause = { kind: "BADGE" as const, refKey: key, ...(root.isTracked ? { eventId: root.id } : {}) };
  setProgress(turn, badge, value, { cause, key: `evt:${root.id}:bdg:${key}` });
};
