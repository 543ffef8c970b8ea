import { newId } from "../../kernel/ids.ts";
import { write } from "../event-steps.ts";
import type { PlayerState } from "../player-state.ts";
import type { Turn } from "../turn.ts";
import type { SegmentIndex } from "./segment-index.ts";

/** The segments' inputs when they were last evaluated. */
type Seen = {
  values: unknown[];
  /** The player's segments have never been evaluated: all of them must be. */
  isNew: boolean;
  /** The steps did not suffice: the next turn starts over, as when the player is loaded. */
  isGivenUp: boolean;
};

/**
 * By loaded player. The stored segments agreed with the stored inputs, so comparing these with the current
 * ones shows which segments to evaluate again.
 */
const SEEN = new WeakMap<PlayerState, Seen>();

/** Records the inputs of a player's segments before a turn changes any of them. */
export const watchSegments = ({ dynamic, readers }: SegmentIndex, player: PlayerState): void => {
  if (dynamic.length === 0 || SEEN.get(player)?.isGivenUp === false) return;
  const values = readers.map((read) => read(player));
  // A player who has just been created has no line in the player stream yet.
  SEEN.set(player, { values, isNew: player.seq === 0, isGivenUp: false });
};

const READERS_PER_STEP = 4;

/** Updates the recorded inputs. @returns the indexes of those that have changed */
const updateInputs = (
  { readers, dynamic }: SegmentIndex,
  { player, root }: Turn,
  { values }: Seen,
): Set<number> | undefined => {
  root.accounts.upkeep.spend((readers.length + dynamic.length) / READERS_PER_STEP);
  let changed: Set<number> | undefined;
  for (let place = 0; place < readers.length; place++) {
    const value = readers[place]!(player);
    if (Object.is(value, values[place])) continue;
    values[place] = value;
    (changed ??= new Set()).add(place);
  }
  return changed;
};

/**
 * Refreshes the dynamic segments that may have changed: `player.segment_entered`, `player.segment_left`. Only
 * those that read a changed input are evaluated. Times are measured at the turn's event, or, when that is
 * late, at the latest event of the player.
 */
export const refreshSegments = (index: SegmentIndex, turn: Turn): void => {
  if (index.dynamic.length === 0) return;
  const seen = SEEN.get(turn.player)!;
  if (seen.isGivenUp) return;
  if (turn.root.accounts.upkeep.isSpent) return giveUp(turn, seen);
  const changed = updateInputs(index, turn, seen);
  if (changed || seen.isNew) refreshSome(index, turn, { seen, changed: changed ?? new Set(), isTime: false });
};

/** As `refreshSegments`, including unchanged ones: all, or those that change with time alone. */
export const refreshAllSegments = (index: SegmentIndex, turn: Turn, which: "ALL" | "TIMED"): void => {
  const seen = SEEN.get(turn.player);
  if (!seen) return;
  const changed = updateInputs(index, turn, seen) ?? new Set();
  seen.isNew ||= which === "ALL";
  refreshSome(index, turn, { seen, changed, isTime: true });
};

const giveUp = ({ warn }: Turn, seen: Seen): void => {
  seen.isGivenUp = true;
  warn("out of steps: segments stay as they are");
};

type Refresh = { seen: Seen; changed: Set<number>; isTime: boolean };

const refreshSome = ({ dynamic }: SegmentIndex, turn: Turn, { seen, changed, isTime }: Refresh): void => {
  const asOf = asOfLatest(turn);
  const { upkeep } = turn.root.accounts;
  for (const segment of dynamic) {
    const { key, inputs, isTimed, ownInput } = segment;
    const isAffected = seen.isNew || (isTime && isTimed) || inputs.some((place) => changed.has(place));
    if (!isAffected) continue;
    if (upkeep.isSpent) return giveUp(turn, seen);
    const before = upkeep.spent;
    upkeep.spend(segment.steps);
    const isMember = segment.test(asOf);
    upkeep.recordSpender(segment.spender, before);
    if (!move(turn, key, isMember) || ownInput === undefined) continue;
    changed.add(ownInput);
    seen.values[ownInput] = isMember;
  }
  seen.isNew = false;
};

/** Membership is of the present: a late event does not restore an earlier state. */
const asOfLatest = (turn: Turn): Turn => {
  const { event, player } = turn;
  const latestMs = player.lastSeenAt?.getTime() ?? event.at;
  return latestMs > event.at ? { ...turn, event: { ...event, at: latestMs } } : turn;
};

/**
 * Records that the turn's player leaves a segment, or is merged into another: at the turn's event, or, when
 * that is late, at the latest event of the player. A spell of no time is none.
 */
export const endSpell = (turn: Turn, segmentKey: string): void => {
  const { player, nowMs } = turn;
  const enteredMs = player.segments.get(segmentKey);
  const leftMs = Math.min(asOfLatest(turn).event.at, nowMs);
  if (enteredMs === undefined || enteredMs >= leftMs) return;
  const { id: playerId, projectId } = player;
  write(turn, "segmentSpells", { id: newId(), projectId, playerId, segmentKey, enteredMs, leftMs });
};

/** @returns whether that was a change */
const move = (turn: Turn, segmentKey: string, isMember: boolean): boolean => {
  const { player, event, emit, nowMs } = turn;
  if (player.segments.has(segmentKey) === isMember) return false;
  if (!isMember) endSpell(turn, segmentKey);
  if (isMember) player.segments.set(segmentKey, Math.min(event.at, nowMs));
  else player.segments.delete(segmentKey);
  player.dirty.segments.add(segmentKey);
  const { id: playerId, externalUserId } = player;
  emit(isMember ? "player.segment_entered" : "player.segment_left", {
    playerId,
    externalUserId,
    segmentKey,
  });
  return true;
};

/** Adds the player to a static segment, or removes it. @returns a message when that is not possible */
export const setMembership = (turn: Turn, segmentKey: string, isMember: boolean): string | undefined => {
  const segment = turn.project.segments.get(segmentKey);
  if (!segment) return `there is no segment ${segmentKey}`;
  if (segment.definition.kind === "DYNAMIC")
    return `segment ${segmentKey} is DYNAMIC: its definition decides who is in it`;
  move(turn, segmentKey, isMember);
  return undefined;
};
