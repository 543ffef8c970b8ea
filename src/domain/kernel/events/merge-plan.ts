/** How the state of two players is combined; see docs and `mergePlayers`. */
export type MergeStrategy = {
  xp: "SUM" | "MAX" | "KEEP_TARGET";
  currencies: "SUM" | "MAX" | "KEEP_TARGET";
  /** By the board's operator: BEST the better score, SUM the sum, LATEST the later one. */
  leaderboards: "BY_OPERATOR" | "KEEP_TARGET";
  /** Which attributes, metadata and profile take precedence where both have a value. */
  profile: "TARGET_WINS" | "SOURCE_WINS";
};

export const DEFAULT_STRATEGY: MergeStrategy = {
  xp: "SUM",
  currencies: "SUM",
  leaderboards: "BY_OPERATOR",
  profile: "TARGET_WINS",
};

type Joined = { target: number; source: number; result: number };

/** Changes made by a merge, or that it would make. */
export type MergeSummary = {
  xp: Joined;
  level: { target: number; result: number };
  currencies: Record<string, Joined>;
  /** Currency amounts lost because they exceeded the maximum. */
  clamped: Record<string, number>;
  lives: Joined | null;
  /** Badges and tiers that the target did not have. */
  badges: { badgeKey: string; tier: number }[];
  streaks: { streakKey: string; current: number; longest: number; freezes: number }[];
  /** Static segments that the target was not in. */
  segments: string[];
  boosts: number;
  leaderboards: { leaderboardKey: string; score: number }[];
  /** State left out because the result would exceed a limit. */
  dropped: string[];
  holdsReleased: number;
};

export const emptySummary = (): MergeSummary => ({
  xp: { target: 0, source: 0, result: 0 },
  level: { target: 1, result: 1 },
  currencies: {},
  clamped: {},
  lives: null,
  badges: [],
  streaks: [],
  segments: [],
  boosts: 0,
  leaderboards: [],
  dropped: [],
  holdsReleased: 0,
});
