import { z } from "zod";
import { IconUrl, Name } from "../language/syntax.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { invalid } from "../../kernel/errors.ts";

/** Maximum levels of one curve. */
export const LEVELS_MAX = 1_000;

const wholeXp = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const maxLevel = z.int().min(2).max(LEVELS_MAX);

/** The formula of a curve: determines the total XP of each level from a few numbers. */
export const CurveInput = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("TABLE"),
    params: z.strictObject({ thresholds: z.array(wholeXp).min(1).max(LEVELS_MAX) }),
  }),
  z.strictObject({
    type: z.literal("LINEAR"),
    params: z.strictObject({ base: wholeXp.min(1), maxLevel }),
  }),
  z.strictObject({
    type: z.literal("QUADRATIC"),
    params: z.strictObject({ base: wholeXp.min(1), growth: wholeXp, maxLevel }),
  }),
  z.strictObject({
    type: z.literal("EXPONENTIAL"),
    params: z.strictObject({
      base: wholeXp.min(1),
      ratio: z.number().gt(1).max(3),
      roundTo: z.int().min(1).max(1_000_000).default(1),
      maxLevel,
    }),
  }),
]);
export type CurveInput = z.output<typeof CurveInput>;

/** A compiled curve: `thresholds[L - 1]` is the total XP that level L needs; strictly increasing from 0. */
export type LevelCurve = CurveInput & { thresholds: number[] };

/** Progress between two levels. XP values are totals from 0; `percent` is 0 to 100, rounded down. */
export const LevelProgress = z.object({
  level: z.int(),
  levelName: z.string().nullable(),
  xpForLevel: z.int(),
  xpForNextLevel: z.int().nullable(),
  percent: z.number(),
  maxLevel: z.int(),
});
export type LevelProgress = z.output<typeof LevelProgress>;

/**
 * Computes the thresholds of a curve.
 * @throws DomainError VALIDATION_ERROR when they do not start at 0, do not rise, or exceed the safe integers
 */
export const buildCurve = (input: CurveInput): LevelCurve => {
  const thresholds = input.type === "TABLE" ? [...input.params.thresholds] : sumSteps(input);
  const field = input.type === "TABLE" ? "params.thresholds" : "params";
  if (thresholds[0] !== 0) throw invalid(field, "level 1 must need 0 XP");
  for (let level = 2; level <= thresholds.length; level++) {
    const xp = thresholds[level - 1]!;
    if (xp > Number.MAX_SAFE_INTEGER) throw invalid(field, `level ${level} needs more than 2^53 - 1 XP`);
    if (xp <= thresholds[level - 2]!)
      throw invalid(field, `level ${level} must need more XP than level ${level - 1}`);
  }
  return { ...input, thresholds };
};

type Formula = Exclude<CurveInput, { type: "TABLE" }>;

const sumSteps = (formula: Formula): number[] => {
  const thresholds = [0];
  for (let level = 1; level < formula.params.maxLevel; level++) {
    thresholds.push(thresholds[level - 1]! + stepOf(formula, level));
  }
  return thresholds;
};

/** Returns the XP from `level` to the next one. */
const stepOf = (formula: Formula, level: number): number => {
  switch (formula.type) {
    case "LINEAR":
      return formula.params.base;
    case "QUADRATIC":
      return formula.params.base + formula.params.growth * (level - 1);
    case "EXPONENTIAL": {
      const { base, ratio, roundTo } = formula.params;
      return Math.round((base * ratio ** (level - 1)) / roundTo) * roundTo;
    }
  }
};

/** The default curve of a project. */
export const DEFAULT_CURVE: LevelCurve = buildCurve({
  type: "QUADRATIC",
  params: { base: 100, growth: 50, maxLevel: 100 },
});

/** Returns the level (from 1) that `xp` in total reaches. */
export const levelOf = ({ thresholds }: LevelCurve, xp: number): number => {
  let low = 0;
  let high = thresholds.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (thresholds[middle]! <= xp) low = middle;
    else high = middle - 1;
  }
  return low + 1;
};

/**
 * Returns the progress of a player from the level that they have to the next one: another than `xp` gives
 * where levels do not fall, or where a new curve leaves them until the next change of XP. Beyond the last
 * level `percent` is 100.
 */
export const levelProgress = (
  curve: LevelCurve,
  { xp, level }: { xp: number; level: number },
): LevelProgress => {
  const xpForLevel = curve.thresholds[level - 1] ?? curve.thresholds.at(-1)!;
  const xpForNextLevel = curve.thresholds[level] ?? null;
  const share = xpForNextLevel === null ? 1 : (xp - xpForLevel) / (xpForNextLevel - xpForLevel);
  const percent = Math.max(0, Math.min(100, Math.floor(share * 100)));
  return { level, levelName: null, xpForLevel, xpForNextLevel, percent, maxLevel: curve.thresholds.length };
};

/** Maximum perks of one level. */
const PERKS_MAX = 50;
/** Maximum bytes of a level's perks as JSON. */
const PERKS_MAX_BYTES = 8 * 1024;

/** Name and rewards of a level. */
export const Level = z.strictObject({
  key: z
    .string()
    .regex(/^[1-9]\d{0,3}$/, { error: "must be the number of a level, such as 5", abort: true })
    .refine((key) => Number(key) <= LEVELS_MAX, `must be at most ${LEVELS_MAX}`)
    .meta({ description: "The level's number as text", example: "5" }),
  name: Name,
  iconUrl: IconUrl.optional(),
  rewards: RewardBundle.default({}),
  perks: z
    .record(z.string().min(1).max(64), z.unknown())
    .refine((perks) => Object.keys(perks).length <= PERKS_MAX, `must be at most ${PERKS_MAX}`)
    .refine(
      (perks) => Buffer.byteLength(JSON.stringify(perks)) <= PERKS_MAX_BYTES,
      "must be at most 8 KiB of JSON",
    )
    .default({})
    .meta({ description: "Shown to players unchanged; not used by the service" }),
});

export type Level = z.output<typeof Level>;
