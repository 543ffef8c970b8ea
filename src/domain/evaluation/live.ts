import { idFloor, NIL_ID } from "../kernel/ids.ts";

/** Fields of every definition of the economy. The key never changes: players' holdings refer to it. */
export type Defined = { key: string; name: string };

/** A stored definition. */
export type Stored<D extends Defined = Defined> = {
  id: string;
  projectId: string;
  definition: D;
  status: "ACTIVE" | "ARCHIVED";
  version: number;
  /** Of kinds with drafts: whether its designer has paused or ended it, and when it was ended. */
  phase?: Phase | null;
  endedMs?: number | null;
  /** Of kinds with drafts: when it did not run, oldest first. */
  pauses?: Pause[] | null;
  /** Of kinds with drafts: earlier versions that players may still be using, oldest first. */
  earlier?: { version: number; definition: D }[] | null;
};

/** Whether a published definition of a kind with drafts runs. */
export type Phase = "RUNNING" | "PAUSED" | "ENDED";

/**
 * A span in which a published definition did not run. An event belongs to it if its id is from `from` on and
 * before `until`: ids are made when events are received, by the server's clock.
 */
export type Pause = {
  from: string;
  /** Null while it lasts. */
  until: string | null;
  /** Whether it had been ended, rather than paused. */
  isEnd?: true;
};

/** A published definition of a kind with drafts, to be compiled for evaluation. */
export type StoredDraft<D extends Defined> = {
  id: string;
  version?: number;
  definition: D;
  phase?: Phase | null | undefined;
  endedMs?: number | null | undefined;
  pauses?: readonly Pause[] | null | undefined;
};

/** A definition as used by evaluation. */
export type Live<D> = { id: string; definition: D };

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
