import { idFloor, NIL_ID } from "../kernel/ids.ts";
import type { Pause, Phase } from "./live.ts";

/** Maximum pauses that are kept of a definition: the latest. */
export const PAUSES_MAX = 100;

/** Returns whether an event was received in a pause. */
export const isInPause = (pauses: readonly Pause[], eventId: string): boolean =>
  pauses.some(({ from, until }) => eventId >= from && (until === null || eventId < until));

/** As `isInPause`, for something of which only the time is known, in ms. */
export const wasPausedAt = (pauses: readonly Pause[], atMs: number): boolean =>
  pauses.length > 0 && isInPause(pauses, idFloor(atMs));

/** A quest or an adventure, as far as it may be paused. */
type Pausable = { phase: Phase; pauses: readonly Pause[] };

/**
 * Returns a quest or an adventure as it was when the turn's root event was received, however much later that
 * is evaluated: paused for one that came in a pause, and running for one that came before.
 */
export const asReceived = <G extends Pausable>(goal: G, { root }: { root: { id: string } }): G => {
  const { phase, pauses } = goal;
  if (pauses.length === 0 || root.id === NIL_ID) return goal;
  if (phase !== "RUNNING" && pauses.at(-1)!.until !== null) return goal;
  const isPaused = isInPause(pauses, root.id);
  if (isPaused === (phase !== "RUNNING")) return goal;
  return { ...goal, phase: isPaused ? "PAUSED" : "RUNNING" };
};

/** Returns the pauses of a definition that runs from an id on. */
export const withoutLasting = (pauses: readonly Pause[], until: string): Pause[] =>
  pauses.map((pause) => (pause.until === null ? { ...pause, until } : pause));

/** Returns the pauses of a definition that does not run from an id on. */
export const withPause = (
  pauses: readonly Pause[],
  { from, isEnd }: { from: string; isEnd: boolean },
): Pause[] => {
  const pause: Pause = { from, until: null, ...(isEnd ? { isEnd } : {}) };
  return [...withoutLasting(pauses, from), pause].slice(-PAUSES_MAX);
};
