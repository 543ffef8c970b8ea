import { counterSteps } from "../metrics/compile.ts";
import { readMetric } from "../metrics/count.ts";
import { metricId } from "../metrics/metric-id.ts";
import type { CompiledDefinitions } from "../compiled-definitions.ts";
import type { Turn } from "../turn.ts";
import { badgeStateOf, setProgress } from "./award.ts";
import type { CompiledBadge } from "./badge.ts";

const NO_BADGES: readonly CompiledBadge[] = [];

/** Indexes the badges that follow a counter by its id. */
export const indexFollowers = (
  badges: CompiledDefinitions["badges"],
): CompiledDefinitions["badgesByMetric"] => {
  const followers = new Map<string, CompiledBadge[]>();
  for (const badge of badges.values()) {
    for (const metric of badge.metrics) {
      const id = metricId(metric);
      const known = followers.get(id);
      if (known) known.push(badge);
      else followers.set(id, [badge]);
    }
  }
  return followers;
};

/** Returns the badges that an event of this type may award by itself. */
export const badgesFollowing = (
  { badgesByMetric, metrics }: Pick<CompiledDefinitions, "badgesByMetric" | "metrics">,
  eventType: string,
): readonly CompiledBadge[] =>
  badgesByMetric.size === 0
    ? NO_BADGES
    : metrics.forEvent(eventType).flatMap(({ id }) => badgesByMetric.get(id) ?? NO_BADGES);

/** Returns whether more events of the metric change nothing: all tiers are held, or the badge was revoked. */
const isDone = (turn: Turn, { definition: { key, tiers, repeatable } }: CompiledBadge): boolean => {
  const { tier, revokedMs } = badgeStateOf(turn, key);
  return revokedMs !== null || (!repeatable && tier >= tiers.length);
};

/** Steps of checking a badge that follows a counter. */
const FOLLOW_STEPS = 10;

/** Step 5 of evaluation: sets the progress of badges that follow a metric of this event's type. */
export const followMetrics = (turn: Turn): void => {
  const { project, player, event, root } = turn;
  if (project.badgesByMetric.size === 0 || player.status !== "ACTIVE") return;
  const { upkeep } = root.accounts;
  for (const metric of project.metrics.forEvent(event.type)) {
    if (upkeep.isSpent) return turn.warn("out of steps: badges do not follow their counters");
    upkeep.spend(1);
    const followers = project.badgesByMetric.get(metric.id) ?? NO_BADGES;
    if (followers.length === 0) continue;
    upkeep.spend(counterSteps(metric.definition) + FOLLOW_STEPS * followers.length);
    const value = readMetric(turn, metric);
    if (value === undefined) continue;
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
