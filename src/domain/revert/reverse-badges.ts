import { revokeBadge } from "../evaluation/badges/award.ts";
import { readMetric } from "../evaluation/metrics/count.ts";
import { metricId } from "../evaluation/metrics/metric-id.ts";
import type { Turn } from "../evaluation/turn.ts";
import { limitedKey } from "../evaluation/rewards/shared-keys.ts";
import type { LoggedAward, Reversal } from "./record.ts";

/** Returns the awards that a badge is based on: those since it was last revoked. */
const standing = (log: readonly LoggedAward[]): LoggedAward[] =>
  log.slice(log.findLastIndex(({ action }) => action === "REVOKED") + 1);

/** Returns the tier that a badge has without the event's awards; undefined when the event awarded none. */
const tierWithout = (log: readonly LoggedAward[]): number | undefined => {
  const awards = standing(log);
  if (!awards.some(({ isOfEvent }) => isOfEvent)) return undefined;
  return Math.max(0, ...awards.filter(({ isOfEvent }) => !isOfEvent).map(({ tier }) => tier));
};

/**
 * Reverts the tiers of badges that are based on the event's awards alone. A badge that something else has
 * awarded too keeps the tier of that.
 * @returns the remaining tier of each badge that fell, by its key
 */
export const reverseBadges = (
  turn: Turn,
  awards: readonly LoggedAward[],
  reversal: Reversal,
): Map<string, number> => {
  const fallen = new Map<string, number>();
  for (const [badgeKey, log] of Map.groupBy(awards, (award) => award.badgeKey)) {
    const tier = tierWithout(log);
    const state = turn.player.badges.get(badgeKey);
    if (tier === undefined || !state || state.tier <= tier) continue;
    if (tier === 0) {
      giveBackNumber(turn, badgeKey, { serialNo: state.serialNo, reversal });
      revokeBadge(turn, { badgeKey, cause: reversal.cause, key: "" });
    } else lower(turn, badgeKey, { tier, reversal });
    fallen.set(badgeKey, tier);
    reversal.badges.add(badgeKey);
  }
  return fallen;
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

/** Lowers the progress of badges that follow a metric of the event; tiers stay. */
export const followBack = (turn: Turn, fallen: ReadonlyMap<string, number>): void => {
  const { project, player, event } = turn;
  if (player.badges.size === 0) return;
  const metrics = new Map(project.metrics.forEvent(event.type).map((metric) => [metric.id, metric]));
  if (metrics.size === 0) return;
  for (const { definition, metrics: followed } of project.badges.values()) {
    const state = player.badges.get(definition.key);
    const metric = followed.map((one) => metrics.get(metricId(one))).find((one) => one !== undefined);
    if (!state || !metric || state.revokedMs !== null) continue;
    const progress = Math.max(0, readMetric(turn, metric) ?? 0);
    // A badge that has all its tiers no longer follows the metric upwards.
    if (progress >= state.progress && !fallen.has(definition.key)) continue;
    player.badges.set(definition.key, { ...state, progress });
    player.dirty.badges.add(definition.key);
  }
};
