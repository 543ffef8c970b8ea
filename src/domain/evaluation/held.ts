import type { Dirty, Held, HeldName, PlayerState } from "./player-state.ts";

/** Reads an input of a segment: another value, by `Object.is`, whenever what the player holds has changed. */
export type InputReader = (player: PlayerState) => unknown;

/** A kind of thing that players hold, as far as evaluation treats all kinds alike. */
type HeldKind = {
  /** Inputs of segments that read it: by the word before the colon, a reader of the key after it. */
  inputs: Readonly<Record<string, (key: string) => InputReader>>;
};

export const HELD: Readonly<Record<HeldName, HeldKind>> = {
  // The number of changes in hand, and so another one with every change.
  entries: {
    inputs: {
      entries: () => (player) => [...player.entries.values()].reduce((sum, { version }) => sum + version, 0),
    },
  },
  balances: { inputs: { currency: (key) => (player) => player.balances.get(key) } },
  lots: { inputs: {} },
  badges: { inputs: { badge: (key) => (player) => player.badges.get(key) } },
  streaks: { inputs: { streak: (key) => (player) => player.streaks.get(key) } },
  segments: { inputs: { segment: (key) => (player) => player.segments.has(key) } },
  boosts: { inputs: {} },
};

export const HELD_NAMES = Object.keys(HELD) as readonly HeldName[];

/** A record with a value for each kind of thing that players hold. */
export const eachHeld = <T>(make: (name: HeldName) => T): Record<HeldName, T> =>
  Object.fromEntries(HELD_NAMES.map((name) => [name, make(name)])) as Record<HeldName, T>;

export const nothingHeld = (): { [Name in HeldName]: Map<string, Held[Name]> } =>
  eachHeld(() => new Map<string, never>());

export const nothingDirty = (): Dirty => ({
  profile: false,
  doc: false,
  ...eachHeld(() => new Set<string>()),
});
