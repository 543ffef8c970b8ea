import type { Cap } from "./caps/cap.ts";

/** How a project's lives regenerate. */
export type LivesSettings = {
  enabled: boolean;
  max: number;
  refillSeconds: number;
  refillAmount: number;
  /** Initial lives of a new player. */
  start: number;
  /** Grants may exceed `max`; regeneration stops while there are `max` or more. */
  allowOverMax: boolean;
};

/** Settings of a project; absent ones have defaults, see `settingsOf`. */
export type ProjectSettings = {
  /** An event or a connection of an unknown player creates the player. */
  autoCreatePlayers: boolean;
  /** Older events are rejected; null accepts any age. */
  maxEventAgeDays: number | null;
  /** Losing XP can lower the level. */
  allowLevelDown: boolean;
  /** A rule may act on a player who does not exist yet, who is then created. */
  createUnknownTargets: boolean;
  /** Maximum factor of all boosts together. */
  maxBoostFactor: number;
  /** XP from events beyond `xp` in a local day is multiplied by `factorAbove`. */
  xpDailySoftCap: { xp: number; factorAbove: number } | null;
  /** The most that rules give a player of XP or a currency in a window. */
  caps: Cap[];
  lives: LivesSettings;
  /** The fraction of events whose evaluation is explained and stored, 0 to 1, by kind of key. */
  traceSampling: { live: number; test: number };
  /** How long traces are kept, in days. */
  tracesDays: number;
  /** How long lines of players' streams and effects of events are kept, in days; the plan may keep less. */
  activityDays: number;
  /** How long executions of rules are kept, in days; the plan may keep less. */
  executionsDays: number;
  /** `onePerMode`: a player has at most one lobby of a mode, otherwise one seat in each lobby. */
  lobby: { onePerMode: boolean };
  /** Whether players may send one another direct messages. */
  chat: { directPolicy: "ALL" | "OFF" };
};

export const DEFAULT_SETTINGS: ProjectSettings = {
  autoCreatePlayers: true,
  maxEventAgeDays: null,
  allowLevelDown: false,
  createUnknownTargets: false,
  maxBoostFactor: 10,
  xpDailySoftCap: null,
  caps: [],
  lives: { enabled: false, max: 5, refillSeconds: 1_800, refillAmount: 1, start: 5, allowOverMax: false },
  traceSampling: { live: 0.01, test: 1 },
  tracesDays: 7,
  activityDays: 30,
  executionsDays: 90,
  lobby: { onePerMode: true },
  chat: { directPolicy: "ALL" },
};

/** Applies the defaults to stored settings. */
export const settingsFrom = (stored: Partial<ProjectSettings>): ProjectSettings => ({
  ...DEFAULT_SETTINGS,
  ...stored,
  lives: { ...DEFAULT_SETTINGS.lives, ...stored.lives },
  traceSampling: { ...DEFAULT_SETTINGS.traceSampling, ...stored.traceSampling },
  lobby: { ...DEFAULT_SETTINGS.lobby, ...stored.lobby },
  chat: { ...DEFAULT_SETTINGS.chat, ...stored.chat },
});
