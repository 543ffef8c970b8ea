import { z } from "zod";

/** Schemas shared by events of several types. */
export const Id = z.uuid();
export const Time = z.iso.datetime();
export const Text = z.string();
export const Data = z.record(z.string(), z.unknown());
export const PLAYER = { playerId: Id, externalUserId: Text };
export const Player = z.object(PLAYER);
/** Who a player is, in lists of something else. */
export const Person = Player.extend({ displayName: Text.nullable() });

export const Lives = z.object({
  current: z.int(),
  max: z.int(),
  nextLifeAt: Time.nullable(),
  fullAt: Time.nullable(),
  unlimitedUntil: Time.nullable(),
});
/** Lives of a player in the API. */
export type LivesView = z.output<typeof Lives>;

export const Boost = z.object({
  id: Id,
  boostKey: Text,
  applies: Text,
  factor: z.number(),
  startsAt: Time,
  expiresAt: Time,
  usesLeft: z.int().nullable(),
  scope: z.enum(["PLAYER", "SEGMENT", "PROJECT"]),
});
/** A boost in the API. */
export type BoostView = z.output<typeof Boost>;

const Joined = z.object({ target: z.int(), source: z.int(), result: z.int() });

export const MergeSummaryShape = z.object({
  xp: Joined,
  level: z.object({ target: z.int(), result: z.int() }),
  currencies: z.record(z.string(), Joined),
  clamped: z
    .record(z.string(), z.int())
    .meta({ description: "Amounts lost because they exceeded a currency's maximum" }),
  lives: Joined.nullable(),
  /** Badges and tiers that the target did not have. */
  badges: z.array(z.object({ badgeKey: z.string(), tier: z.int() })),
  streaks: z.array(z.object({ streakKey: z.string(), current: z.int(), longest: z.int(), freezes: z.int() })),
  /** Static segments that the target was not in. */
  segments: z.array(z.string()),
  boosts: z.int(),
  leaderboards: z.array(z.object({ leaderboardKey: z.string(), score: z.number() })),
  dropped: z.array(z.string()).meta({ description: "Left out, because the sum would be beyond a limit" }),
  holdsReleased: z.int(),
});

/** Changes made by a merge, or that it would make. */
export type MergeSummary = z.output<typeof MergeSummaryShape>;

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
