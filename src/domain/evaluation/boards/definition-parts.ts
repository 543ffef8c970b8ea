import { z } from "zod";
import { RewardBundle } from "../rewards/bundle.ts";
import { Key } from "../language/syntax.ts";
import { NOT_SUPPORTED } from "./unknown-fields.ts";

export const AUDIENCE_SEGMENTS_MAX = 20;
export const PRIZES_MAX = 100;
/** Maximum rank that prizes can name. */
const PLACE_MAX = 1_000_000;
export const BANDS_MAX = 20;
const DEBOUNCE_SECONDS_MAX = 86_400;
const INTERVAL_SECONDS_MAX = 86_400;
const PER_MINUTE_MAX = 10_000;

/** Players that may enter. */
export const Audience = z.strictObject(
  {
    segmentKeys: z.array(Key).min(1).max(AUDIENCE_SEGMENTS_MAX),
    match: z.enum(["ANY", "ALL", "NONE"]).default("ANY"),
  },
  NOT_SUPPORTED,
);
export type Audience = z.output<typeof Audience>;

/** Bounds of submitted scores. */
export const Bounds = z
  .strictObject(
    {
      min: z.number().optional().describe("Minimum score that may be submitted"),
      max: z.number().optional().describe("Maximum score that may be submitted"),
      maxDelta: z
        .number()
        .gt(0)
        .optional()
        .describe("Maximum change of the player's score by one submission"),
      maxPerMinute: z
        .int()
        .min(1)
        .max(PER_MINUTE_MAX)
        .optional()
        .describe("Maximum scores of a player per minute of the clock"),
      minIntervalSeconds: z.int().min(1).max(INTERVAL_SECONDS_MAX).optional(),
      onViolation: z
        .enum(["REJECT", "HOLD"])
        .default("REJECT")
        .describe("REJECT: 409 SCORE_OUT_OF_BOUNDS; HOLD: the score waits for a review"),
    },
    NOT_SUPPORTED,
  )
  .superRefine(({ min, max }, context) => {
    if (min === undefined || max === undefined || min <= max) return;
    context.addIssue({ code: "custom", path: ["max"], message: "must be at least min" });
  });
export type Bounds = z.output<typeof Bounds>;

/** The cost of entering, once per period. */
export const EntryCost = z.strictObject(
  { currencyKey: Key, amount: z.int().min(1).max(Number.MAX_SAFE_INTEGER) },
  NOT_SUPPORTED,
);
export type EntryCost = z.output<typeof EntryCost>;

export const DEFAULT_BANDS: readonly number[] = [1, 3, 10, 25, 50, 100];

/** Which changes of rank are published. */
export const RankChange = z.strictObject(
  {
    enabled: z.boolean().default(true).describe("false: changes of rank and new leaders are not published"),
    bands: z
      .array(z.int().min(1).max(PLACE_MAX))
      .max(BANDS_MAX)
      .refine((bands) => bands.every((edge, i) => i === 0 || edge > bands[i - 1]!), "must rise")
      .default([...DEFAULT_BANDS])
      .describe("Ranks whose crossing is published"),
    minAbsolute: z.int().min(1).max(PLACE_MAX).default(5),
    minPercent: z.number().min(0).max(100).default(10),
    debounceSeconds: z
      .int()
      .min(0)
      .max(DEBOUNCE_SECONDS_MAX)
      .default(60)
      .describe("Minimum time between two notifications of a player"),
    maxRank: z.int().min(1).max(PLACE_MAX).optional().describe("Changes beyond this rank are not published"),
  },
  NOT_SUPPORTED,
);
export type RankChange = z.output<typeof RankChange>;

/** Default of boards without the setting. */
export const DEFAULT_RANK_CHANGE: RankChange = RankChange.parse({});

/**
 * The prize of the ranks from `from` to `to`: rank numbers by RANK, percents of all entries by PERCENTILE
 * (from 0 to 10: the first tenth).
 */
export const Prize = z
  .strictObject(
    {
      from: z.number().min(0).max(PLACE_MAX),
      to: z.number().min(0).max(PLACE_MAX),
      by: z.enum(["RANK", "PERCENTILE"]).default("RANK"),
      tierKey: z.never({ error: "leagues are not available yet" }).optional(),
      rewards: RewardBundle,
    },
    NOT_SUPPORTED,
  )
  .superRefine(({ from, to, by }, context) => {
    const refuse = (path: "from" | "to", message: string): void =>
      context.addIssue({ code: "custom", path: [path], message });
    if (by === "RANK" && !(Number.isInteger(from) && from >= 1))
      refuse("from", "must be a rank of 1 or above");
    if (by === "RANK" && !Number.isInteger(to)) refuse("to", "must be a rank of 1 or above");
    if (by === "PERCENTILE" && to > 100) refuse("to", "must be at most 100");
    if (by === "RANK" ? to < from : to <= from) refuse("to", `must not be less than ${from}`);
  });
export type Prize = z.output<typeof Prize>;

const overlaps = (a: Prize, b: Prize): boolean =>
  a.by === b.by && (a.by === "RANK" ? a.from <= b.to && b.from <= a.to : a.from < b.to && b.from < a.to);

/** A rank wins the first matching prize of the list. */
export const Prizes = z
  .array(Prize)
  .max(PRIZES_MAX)
  .superRefine((prizes, context) => {
    prizes.forEach((prize, i) => {
      if (!prizes.slice(0, i).some((before) => overlaps(before, prize))) return;
      context.addIssue({ code: "custom", path: [i, "from"], message: "overlaps another prize" });
    });
  });
export const PRIZE_CLAIMS = ["AUTO", "CLAIM"] as const;
