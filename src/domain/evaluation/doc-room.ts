import { PLAYER_STATE_MAX_BYTES } from "../kernel/limits.ts";
import type { Game } from "./game.ts";
import type { PlayerDoc, PlayerState, DocSize } from "./player-state.ts";
import type { Turn } from "./turn.ts";

/** Bytes that a bound may come to before the document is measured. */
const MEASURED_FROM = PLAYER_STATE_MAX_BYTES / 2;
/** A document from here on is large: half of MEASURED_FROM, so that none is measured often. */
const LARGE = PLAYER_STATE_MAX_BYTES / 4;
/** Bytes of JSON that are written and measured in one step. */
const BYTES_PER_STEP = 32;

/** The bytes of a value as JSON; 0 for none. Documents have no other characters than those of ASCII. */
export const jsonLength = (value: unknown): number =>
  value === undefined ? 0 : JSON.stringify(value).length;

const measure = (player: PlayerState, isPruned: boolean): DocSize => {
  const bytes = jsonLength(player.doc);
  return { bytes, isExact: bytes > LARGE, isPruned };
};

/** What something adds to a document: `most` at most, and what `grown` measures. In bytes. */
export type Growth = { most: number; grown: () => number };

/**
 * Whether a player's document has room for more, and then counts it in. Where it is full, what no definition
 * reads any more is let go of first.
 */
export const takeRoom = (turn: Turn, { most, grown }: Growth): boolean => {
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

/** As `takeRoom`, for what has to be kept whether or not there is room: it is bounded by itself. */
export const noteGrowth = (turn: Turn, growth: Growth): void => {
  if (takeRoom(turn, growth)) return;
  const { docSize } = turn.player;
  turn.player.docSize = { ...docSize, bytes: docSize.bytes + growth.grown() };
};

/** Whether a document may be kept as it is. */
export const isWithinRoom = (doc: PlayerDoc): boolean => jsonLength(doc) <= PLAYER_STATE_MAX_BYTES;

type Readers = Pick<Game, "metrics" | "rules">;

const keptOf = <V>(values: Readonly<Record<string, V>> = {}, isRead: (id: string) => boolean) =>
  Object.fromEntries(Object.entries(values).filter(([id]) => isRead(id)));

/** A document without counters that nothing reads, and without the limits of rules that do not run. */
export const withoutUnread = ({ metrics, rules }: Readers, doc: PlayerDoc): PlayerDoc => {
  const counted = { ...doc, c: keptOf(doc.c, (id) => metrics.ids.has(id)) };
  // What a paused rule has counted stays where there is room: it goes on from there.
  if (isWithinRoom(counted)) return counted;
  const running = new Set(rules.all.map(({ id, isShadow }) => (isShadow ? `~${id}` : id)));
  return { ...counted, l: keptOf(doc.l, (id) => running.has(id)) };
};

/** Lets a document that is larger than it may be lose what no definition reads. */
export const shrinkDoc = (readers: Readers, player: PlayerState): void => {
  if (player.docSize.bytes <= PLAYER_STATE_MAX_BYTES) return;
  player.docSize = measure(player, false);
  if (player.docSize.bytes > PLAYER_STATE_MAX_BYTES) pruneDoc(readers, player);
  // What was only estimated is noted, so that nobody measures it again.
  else player.dirty.doc = true;
};

/** Lets go of what no definition reads. */
const pruneDoc = (readers: Readers, player: PlayerState): void => {
  player.doc = withoutUnread(readers, player.doc);
  player.docSize = measure(player, true);
  player.dirty.doc = true;
};
