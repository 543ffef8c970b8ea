import type { Cause } from "../events.ts";
import type { Turn } from "../progression/turn.ts";

/** What keeps a badge from being awarded, progressed or revoked; undefined when it was done (or was so). */
export type BadgeProblem = "UNKNOWN_BADGE" | "NOT_AVAILABLE" | "SOLD_OUT" | "NOT_HELD";

export type BadgeAward = { badgeKey: string; tier?: number; cause: Cause; key: string };

/** Awards a tier (never lowers): `player.badge_earned` for each tier reached, and its rewards. */
export const awardBadge = (_turn: Turn, _award: BadgeAward): BadgeProblem | undefined => {
  throw new Error("not built");
};

/** Adds progress; tiers whose threshold is reached are awarded. */
export const progressBadge = (
  _turn: Turn,
  _progress: { badgeKey: string; amount: number; cause: Cause; key: string },
): BadgeProblem | undefined => {
  throw new Error("not built");
};

/** Takes a badge away: `player.badge_revoked`. */
export const revokeBadge = (
  _turn: Turn,
  _revocation: { badgeKey: string; cause: Cause; key: string },
): BadgeProblem | undefined => {
  throw new Error("not built");
};

/** Step 5 of evaluation: badges that follow a metric of this event's type. */
export const followMetrics = (_turn: Turn): void => undefined;
