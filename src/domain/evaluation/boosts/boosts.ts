import type { EventData } from "../../kernel/events/domain-events.ts";
import type { Cause } from "../../kernel/events/events.ts";
import type { BoostView } from "../../kernel/events/shapes.ts";
import { newId } from "../../kernel/ids.ts";
import type { BoostState, PlayerState, Stacking } from "../player-state.ts";
import type { RuleEvent } from "../rule-event.ts";
import { playerOf, type Turn } from "../turn.ts";
import type { ActiveCampaign } from "./campaign-boost.ts";

/** Maximum unexpired boosts of one player. */
export const BOOSTS_MAX = 50;
/** How far ahead boosts that extend one another may end, in ms. */
export const BOOST_AHEAD_MAX_MS = 365 * 86_400_000;

/** The current factor on a gain, and a function that counts its use. */
export type Boosting = { factor: number; use(): void };

export const UNBOOSTED: Boosting = { factor: 1, use: () => undefined };

type Candidate = Pick<BoostState, "boostKey" | "factor"> & { isMultiplied: boolean; row?: BoostState };

/**
 * Returns the factor on gains of `applies` at the time of the turn's event: the product over boost keys, of
 * each key the highest, times those that stack by multiplying; capped by the project's limit. Expired boosts
 * are ended.
 */
export const boostOf = (turn: Turn, applies: string): Boosting => {
  const { player, project } = turn;
  if (player.boosts.size === 0 && project.boosts.length === 0) return UNBOOSTED;
  const counted = countedOf(candidatesOf(turn, applies));
  if (counted.length === 0) return UNBOOSTED;
  const product = counted.reduce((factor, boost) => factor * boost.factor, 1);
  return {
    factor: Math.min(project.settings.maxBoostFactor, product),
    use: () => {
      for (const { row } of counted) if (row) useOnce(turn, row);
    },
  };
};

/**
 * Returns the current factor on a gain, capped by the project, and counts a use of each boost with limited
 * uses.
 */
export const useBoosts = (turn: Turn, applies: string): number => {
  const { factor, use } = boostOf(turn, applies);
  use();
  return factor;
};

const candidatesOf = (turn: Turn, applies: string): Candidate[] => {
  const { player, project, event } = turn;
  const found: Candidate[] = [];
  for (const row of player.boosts.values()) {
    if (row.expiresMs <= event.at) endBoost(turn, row, "EXPIRED");
    else if (row.applies === applies && row.startsMs <= event.at) {
      found.push({ ...row, isMultiplied: row.stacking === "MULTIPLY", row });
    }
  }
  for (const campaign of project.boosts) {
    if (campaign.definition.applies !== applies || !isRunning(turn, campaign)) continue;
    const { key: boostKey, factor } = campaign.definition;
    found.push({ boostKey, factor, isMultiplied: false });
  }
  return found;
};

/** Returns whether a campaign applies to the player at a moment. */
export const isRunning = (
  { player, event }: { player: Pick<PlayerState, "segments">; event: Pick<RuleEvent, "at"> },
  { startsMs, expiresMs, definition: { segmentKey } }: ActiveCampaign,
): boolean =>
  startsMs <= event.at &&
  event.at < expiresMs &&
  (segmentKey === undefined || player.segments.has(segmentKey));

const endOf = ({ row }: Candidate): number => row?.expiresMs ?? Infinity;

/** Whether a boost counts in place of another of its key: the higher, or else the one that ends first. */
const isBefore = (one: Candidate, other: Candidate): boolean =>
  one.factor > other.factor || (one.factor === other.factor && endOf(one) < endOf(other));

/** Returns the highest boost of each key, and all that multiply. */
const countedOf = (candidates: readonly Candidate[]): Candidate[] => {
  const highest = new Map<string, Candidate>();
  for (const one of candidates) {
    if (one.isMultiplied) continue;
    const known = highest.get(one.boostKey);
    if (!known || isBefore(one, known)) highest.set(one.boostKey, one);
  }
  return [...highest.values(), ...candidates.filter(({ isMultiplied }) => isMultiplied)];
};

const useOnce = (turn: Turn, row: BoostState): void => {
  if (row.usesLeft === null) return;
  const usesLeft = row.usesLeft - 1;
  if (usesLeft <= 0) endBoost(turn, row, "USED_UP");
  else setBoost(turn, { ...row, usesLeft });
};

const setBoost = ({ player }: Turn, row: BoostState): void => {
  player.boosts.set(row.id, row);
  player.dirty.boosts.add(row.id);
};

/** Ends a boost and publishes it. */
export const endBoost = (
  turn: Turn,
  { id, boostKey, applies }: BoostState,
  by: EventData<"player.boost_ended">["by"],
): void => {
  turn.player.boosts.delete(id);
  turn.player.dirty.boosts.add(id);
  turn.emit("player.boost_ended", { ...playerOf(turn), boostKey, applies, by });
};

const endExpired = (turn: Turn, atMs: number): void => {
  for (const row of turn.player.boosts.values()) if (row.expiresMs <= atMs) endBoost(turn, row, "EXPIRED");
};

/** Ends the player's expired boosts. */
export const endDueBoosts = (turn: Turn): void => {
  endExpired(turn, turn.nowMs);
};

export type NewBoost = {
  boostKey: string;
  applies: string;
  factor: number;
  durationSeconds: number;
  uses?: number | undefined;
  stacking: Stacking;
  cause: Cause;
};

export type BoostStarted = { boost?: BoostState; problem?: "BOOST_LIMIT" };

/**
 * Starts a boost at the time of the turn's event, by its stacking with boosts of the same key and target: MAX
 * uses the highest, MULTIPLY all, EXTEND adds time (and uses) to the running one, REPLACE ends them.
 * `player.boost_started`, and `player.boost_ended` for those replaced.
 */
export const startBoost = (turn: Turn, boost: NewBoost): BoostStarted => {
  const { player, event } = turn;
  endExpired(turn, event.at);
  const same = [...player.boosts.values()]
    .filter(({ boostKey, applies }) => boostKey === boost.boostKey && applies === boost.applies)
    .toSorted((a, b) => b.expiresMs - a.expiresMs);
  const [running] = same;
  if (boost.stacking === "EXTEND" && running) return { boost: extend(turn, running, boost) };
  if (boost.stacking === "REPLACE") for (const row of same) endBoost(turn, row, "REPLACED");
  if (player.boosts.size >= BOOSTS_MAX) {
    turn.warn(`the player has ${BOOSTS_MAX} boosts`);
    return { problem: "BOOST_LIMIT" };
  }
  const { boostKey, applies, factor, stacking, cause } = boost;
  const row: BoostState = {
    id: newId(),
    boostKey,
    applies,
    factor,
    stacking,
    startsMs: event.at,
    expiresMs: event.at + boost.durationSeconds * 1_000,
    usesLeft: boost.uses ?? null,
    cause,
  };
  return { boost: begin(turn, row, cause) };
};

const extend = (turn: Turn, running: BoostState, { durationSeconds, uses, cause }: NewBoost): BoostState => {
  const latest = Math.max(running.expiresMs, turn.event.at + BOOST_AHEAD_MAX_MS);
  const usesLeft = running.usesLeft === null || uses === undefined ? null : running.usesLeft + uses;
  const expiresMs = Math.min(latest, running.expiresMs + durationSeconds * 1_000);
  return begin(turn, { ...running, expiresMs, usesLeft }, cause);
};

const begin = (turn: Turn, row: BoostState, cause: Cause): BoostState => {
  setBoost(turn, row);
  turn.emit("player.boost_started", { ...playerOf(turn), boost: showBoost(row), cause });
  return row;
};

/** Converts a player's own boost to the API representation. */
export const showBoost = (row: BoostState): BoostView => ({
  id: row.id,
  boostKey: row.boostKey,
  applies: row.applies,
  factor: row.factor,
  startsAt: new Date(row.startsMs).toISOString(),
  expiresAt: new Date(row.expiresMs).toISOString(),
  usesLeft: row.usesLeft,
  scope: "PLAYER",
});
