import type { RankChange } from "../../evaluation/boards/definition-parts.ts";
import type { Ties } from "../../evaluation/boards/ranks.ts";

/** A player who appears within this rank is told so. */
export const ENTERED_RANK_MAX = 100;

/** What of a change of rank is worth telling. */
export type Significance = {
  reason: "BAND" | "DELTA" | "ENTERED";
  direction: "UP" | "DOWN" | "NEW";
  /** The edges that were crossed, rising. */
  crossed: number[];
};

type Rule = Pick<RankChange, "bands" | "minAbsolute" | "minPercent" | "maxRank">;

/**
 * Judges a change from the rank that a player knows to the one there is now. A band is entered and left over
 * its edge: from 11 to 10, from 3 to 4. Without a known rank only an appearance near the top counts.
 */
export const significanceOf = (
  { bands, minAbsolute, minPercent, maxRank = Infinity }: Rule,
  before: number | null,
  now: number,
): Significance | undefined => {
  if (Math.min(before ?? Infinity, now) > maxRank) return undefined;
  if (before === null)
    return now <= ENTERED_RANK_MAX ? { reason: "ENTERED", direction: "NEW", crossed: [] } : undefined;
  const direction = now < before ? "UP" : "DOWN";
  const crossed = bands.filter((edge) => before <= edge !== now <= edge);
  if (crossed.length > 0) return { reason: "BAND", direction, crossed };
  const least = Math.max(minAbsolute, Math.ceil((before * minPercent) / 100));
  return Math.abs(now - before) >= least ? { reason: "DELTA", direction, crossed } : undefined;
};

/** A first place: whose, and the score as the index has it (the better the smaller). */
export type Lead = { playerId: string; rankScore: number };

/** What becomes of the lead: who is named from now on, and whether that is told. */
export type LeadChange = { leader: Lead; isTold: boolean };

/**
 * Compares the leader last named with the first place there is now. A leader who is only gone makes no new
 * one worth telling, unless the next would have passed him anyway. An equal score takes the lead only where
 * ties are for the latest.
 * @param still where the leader last named stands now; undefined when nowhere
 */
export const leadChange = (
  ties: Ties,
  { named, still, first }: { named: Lead | undefined; still: Lead | undefined; first: Lead | undefined },
): LeadChange | undefined => {
  if (!first) return undefined;
  if (!named) return { leader: first, isTold: true };
  if (first.playerId === named.playerId)
    return first.rankScore === named.rankScore ? undefined : { leader: first, isTold: false };
  if (!still) return { leader: first, isTold: first.rankScore < named.rankScore };
  if (first.rankScore === still.rankScore && ties !== "LATEST") return undefined;
  return { leader: first, isTold: true };
};
