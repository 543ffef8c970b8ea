import type { PlayerState } from "../player-state.ts";
import type { Turn } from "../turn.ts";
import type { SegmentIndex } from "./segment-index.ts";

/** What the segments' inputs were when they were last looked at. */
type Seen = {
  values: unknown[];
  /** Nobody has looked at the player's segments yet: every one of them is to be evaluated. */
  isNew: boolean;
  /** The steps did not suffice to look: with the next turn it begins anew, as when the player is loaded. */
  isGivenUp: boolean;
};

/**
 * By player in hand. What was stored with the player agreed with its segments, so a comparison with what is
 * there now tells which segments to look at again.
 */
const SEEN = new WeakMap<PlayerState, Seen>();

/** Remembers what a player's segments are based on, before a turn changes any of it. */
export const watchSegments = ({ dynamic, readers }: SegmentIndex, player: PlayerState): void => {
  if (dynamic.length === 0 || SEEN.get(player)?.isGivenUp === false) return;
  const values = readers.map((read) => read(player));
  // Whoever has been made just now has no line in the player stream yet.
  SEEN.set(player, { values, isNew: player.seq === 0, isGivenUp: false });
};

const READERS_PER_STEP = 4;

/** Takes note of the inputs as they are now. @returns the places of those that have changed since */
const lookAgain = (
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
 * Brings the dynamic segments that may have changed up to date: `player.segment_entered`,
 * `player.segment_left`. Only those are evaluated that read something that has changed since the last look.
 * Times are measured at the turn's event, or, when that is late, at the latest event of the player.
 */
export const refreshSegments = (index: SegmentIndex, turn: Turn): void => {
  if (index.dynamic.length === 0) return;
  const seen = SEEN.get(turn.player)!;
  if (seen.isGivenUp) return;
  if (turn.root.accounts.upkeep.isSpent) return giveUp(turn, seen);
  const changed = lookAgain(index, turn, seen);
  if (changed || seen.isNew) refreshSome(index, turn, { seen, changed: changed ?? new Set(), isTime: false });
};

/** As `refreshSegments`, and of those that nothing has changed for: all, or those that time alone changes. */
export const refreshAllSegments = (index: SegmentIndex, turn: Turn, which: "ALL" | "TIMED"): void => {
  const seen = SEEN.get(turn.player);
  if (!seen) return;
  const changed = lookAgain(index, turn, seen) ?? new Set();
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
    upkeep.noteSpender(segment.spender, before);
    if (!move(turn, key, isMember) || ownInput === undefined) continue;
    changed.add(ownInput);
    seen.values[ownInput] = isMember;
  }
  seen.isNew = false;
};

/** Membership is of the present: a late event does not take the player back to where time had them then. */
const asOfLatest = (turn: Turn): Turn => {
  const { event, player } = turn;
  const latestMs = player.lastSeenAt?.getTime() ?? event.at;
  return latestMs > event.at ? { ...turn, event: { ...event, at: latestMs } } : turn;
};

/** @returns whether that was a change */
const move = ({ player, event, emit, nowMs }: Turn, segmentKey: string, isMember: boolean): boolean => {
  if (player.segments.has(segmentKey) === isMember) return false;
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

/** Puts the player into a static segment, or takes it out. @returns a sentence when that cannot be done */
export const setMembership = (turn: Turn, segmentKey: string, isMember: boolean): string | undefined => {
  const segment = turn.project.segments.get(segmentKey);
  if (!segment) return `there is no segment ${segmentKey}`;
  if (segment.definition.kind === "DYNAMIC")
    return `segment ${segmentKey} is DYNAMIC: its definition decides who is in it`;
  move(turn, segmentKey, isMember);
  return undefined;
};
