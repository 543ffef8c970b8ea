import type { RankChange } from "../../evaluation/boards/definition-parts.ts";
import type { Ties } from "../../evaluation/boards/ranks.ts";

/** A player who enters within this rank is notified. */
export const ENTERED_RANK_MAX = 100;

/** The notable part of a change of rank. */
export type Significance = {
  reason: "BAND" | "DELTA" | "ENTERED";
  direction: "UP" | "DOWN" | "NEW";
  /** The crossed edges, ascending. */
  crossed: number[];
};

type Rule = Pick<RankChange, "bands" | "minAbsolute" | "minPercent" | "maxRank">;

/**
 * Evaluates the change from the last known rank to the current one. A band is entered and left over its edge:
 * from 11 to 10, from 3 to 4. Without a known rank only an appearance near the top counts.
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

/** A first place: the player, and the score as in the index (smaller is better). */
export type Lead = { playerId: string; rankScore: number };

/** The outcome for the lead: who is announced from now on, and whether that is a notice. */
export type LeadChange = { leader: Lead; isAnnounced: boolean };

/**
 * Compares the last announced leader with the current first place. A leader who merely disappeared causes no
 * notice about the next, unless the next would have overtaken anyway. An equal score takes the lead only
 * where ties favour the latest.
 * @param still the current place of the last announced leader; undefined without one
 */
export const leadChange = (
  ties: Ties,
  { named, still, first }: { named: Lead | undefined; still: Lead | undefined; first: Lead | undefined },
): LeadChange | undefined => {
  if (!first) return undefined;
  if (!named) return { leader: first, isAnnounced: true };
  if (first.playerId === named.playerId)
    return first.rankScore === named.rankScore ? undefined : { leader: first, isAnnounced: false };
  if (!still) return { leader: first, isAnnounced: first.rankScore < named.rankScore };
  if (first.rankScore === still.rankScore && ties !== "LATEST") return undefined;
  return { leader: first, isAnnounced: true };
};
