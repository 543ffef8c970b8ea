import { PLAYER_STATE_MAX_BYTES } from "../kernel/limits.ts";
import { PROJECT_SCOPE } from "./caps/cap.ts";
import type { CompiledDefinitions } from "./compiled-definitions.ts";
import type { PlayerDoc, PlayerState, DocSize } from "./player-state.ts";
import type { Turn } from "./turn.ts";

/** Estimated bytes above which a document is measured. */
const MEASURED_FROM = PLAYER_STATE_MAX_BYTES / 2;
/** Bytes above which a document counts as large: half of MEASURED_FROM, so that measuring stays rare. */
const LARGE = PLAYER_STATE_MAX_BYTES / 4;
/** Bytes of JSON that are serialised and measured in one step. */
const BYTES_PER_STEP = 32;

/** Returns the bytes of a value as JSON; 0 for undefined. Documents contain ASCII only. */
export const jsonLength = (value: unknown): number =>
  value === undefined ? 0 : JSON.stringify(value).length;

const measure = (player: PlayerState, isPruned: boolean): DocSize => {
  const bytes = jsonLength(player.doc);
  return { bytes, isExact: bytes > LARGE, isPruned };
};

/** Growth of a document in bytes: `most` is an upper bound, and `grown` measures it. */
export type Growth = { most: number; grown: () => number };

/**
 * Reserves room in a player's document; returns whether there was enough. A full document first loses what no
 * definition reads any more.
 */
export const reserveRoom = (turn: Turn, { most, grown }: Growth): boolean => {
  const { player } = turn;
  const size = sizeBefore(turn, most);
  if (!size.isExact) {
    player.docSize = { ...size, bytes: size.bytes + most };
    return true;
  }
  turn.root.steps.spend(most / BYTES_PER_STEP);
  const growth = grown();
  if (growth > 0 && size.bytes + growth > PLAYER_STATE_MAX_BYTES && !size.isPruned) {
    turn.root.steps.spend(size.bytes / BYTES_PER_STEP);
    pruneDoc(turn.project, player);
  }
  const { bytes } = player.docSize;
  const hasRoom = growth <= 0 || bytes + growth <= PLAYER_STATE_MAX_BYTES;
  if (hasRoom) player.docSize = { ...player.docSize, isExact: true, bytes: bytes + growth };
  return hasRoom;
};

const sizeBefore = ({ player, root }: Turn, most: number): DocSize => {
  const { bytes, isExact, isPruned } = player.docSize;
  if (isExact || bytes + most <= MEASURED_FROM) return player.docSize;
  root.steps.spend(bytes / BYTES_PER_STEP);
  return (player.docSize = measure(player, isPruned));
};

/** As `reserveRoom`, for data that must be stored in any case: it is bounded by itself. */
export const recordGrowth = (turn: Turn, growth: Growth): void => {
  if (reserveRoom(turn, growth)) return;
  const { docSize } = turn.player;
  turn.player.docSize = { ...docSize, bytes: docSize.bytes + growth.grown() };
};

/** Returns whether a document is within its limit. */
export const isWithinRoom = (doc: PlayerDoc): boolean => jsonLength(doc) <= PLAYER_STATE_MAX_BYTES;

type Readers = Pick<CompiledDefinitions, "metrics" | "rules">;

const keptOf = <V>(values: Readonly<Record<string, V>> = {}, isRead: (id: string) => boolean) =>
  Object.fromEntries(Object.entries(values).filter(([id]) => isRead(id)));

/** Returns a document without unread counters, and without the limits of rules that do not run. */
export const withoutUnread = ({ metrics, rules }: Readers, doc: PlayerDoc): PlayerDoc => {
  const counted = { ...doc, c: keptOf(doc.c, (id) => metrics.ids.has(id)) };
  // Limits of a paused rule are kept where there is room, so that it can resume from them.
  if (isWithinRoom(counted)) return counted;
  const running = new Set(rules.all.map(({ id, isShadow }) => (isShadow ? `~${id}` : id)));
  const isCapped = (scope: string): boolean => scope === PROJECT_SCOPE || running.has(scope);
  return {
    ...counted,
    l: keptOf(doc.l, (id) => running.has(id)),
    ...(doc.g ? { g: keptOf(doc.g, isCapped) } : {}),
  };
};

/** Removes what no definition reads from an oversized document. */
export const shrinkDoc = (readers: Readers, player: PlayerState): void => {
  if (player.docSize.bytes <= PLAYER_STATE_MAX_BYTES) return;
  player.docSize = measure(player, false);
  if (player.docSize.bytes > PLAYER_STATE_MAX_BYTES) pruneDoc(readers, player);
  // The measured size is saved, so that it need not be measured again.
  else player.dirty.doc = true;
};

/** Removes what no definition reads. */
const pruneDoc = (readers: Readers, player: PlayerState): void => {
  player.doc = withoutUnread(readers, player.doc);
  player.docSize = measure(player, true);
  player.dirty.doc = true;
};
