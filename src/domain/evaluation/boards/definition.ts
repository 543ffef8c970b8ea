import { z } from "zod";
import {
  AskedPeriod,
  Metric,
  NOT_SUPPORTED,
  type Operator,
  operatorOf,
  OPERATORS,
  Period,
  PeriodPatch,
  unknownFields,
} from "./period.ts";
import { TIES } from "./ranks.ts";
import { Description, Key, Name, patchOf, Path } from "../language/syntax.ts";
import { refuserOf } from "../language/trees.ts";
import { Audience } from "../segments/audience.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { firstOf } from "../../kernel/first.ts";
import { DEFINITION_MAX_BYTES, PATCH_MORE_BYTES } from "../../kernel/limits.ts";
import { boundBytes, fitsBytes } from "../../kernel/hostile-json.ts";
import type { Json } from "../../kernel/events/events.ts";

/** Maximum bytes of a score's `meta` as JSON. */
export const SCORE_META_MAX_BYTES = 1_024;

/** Returns whether it is small enough to be stored with a score. */
export const isMeta = (meta: Json): boolean => fitsBytes(meta, SCORE_META_MAX_BYTES);

export const PRIZES_MAX = 100;
/** Maximum rank that prizes can name. */
const PLACE_MAX = 1_000_000;
const BANDS_MAX = 20;
const DEBOUNCE_SECONDS_MAX = 86_400;
const INTERVAL_SECONDS_MAX = 86_400;
const PER_MINUTE_MAX = 10_000;

/** Players that may enter. */
const Entrants = z.strictObject(Audience.shape, NOT_SUPPORTED);

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

const DEFAULT_BANDS: readonly number[] = [1, 3, 10, 25, 50, 100];

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
    const refuse = refuserOf(context);
    if (by === "RANK" && !(Number.isInteger(from) && from >= 1))
      refuse(["from"], "must be a rank of 1 or above");
    if (by === "RANK" && !Number.isInteger(to)) refuse(["to"], "must be a rank of 1 or above");
    if (by === "PERCENTILE" && to > 100) refuse(["to"], "must be at most 100");
    if (by === "RANK" ? to < from : to <= from) refuse(["to"], `must not be less than ${from}`);
  });
export type Prize = z.output<typeof Prize>;

const overlaps = (a: Prize, b: Prize): boolean =>
  a.by === b.by && (a.by === "RANK" ? a.from <= b.to && b.from <= a.to : a.from < b.to && b.from < a.to);

/** A rank wins the first matching prize of the list. */
const Prizes = z
  .array(Prize)
  .max(PRIZES_MAX)
  .superRefine((prizes, context) => {
    prizes.forEach((prize, i) => {
      if (!prizes.slice(0, i).some((before) => overlaps(before, prize))) return;
      context.addIssue({ code: "custom", path: [i, "from"], message: "overlaps another prize" });
    });
  });

type DefinitionProblem = { path: string[]; message: string };

type Given = Omit<Definition, "operator" | "period"> & {
  operator?: Operator | undefined;
  period: AskedPeriod;
  backfill?: boolean;
};

const problemAt = (path: string, message: string): DefinitionProblem => ({ path: path.split("."), message });

const operatorProblem = ({ metric, operator }: Given): DefinitionProblem | undefined => {
  const derived = operatorOf(metric);
  if (!derived && !operator) return problemAt("operator", "CUSTOM boards need BEST, LATEST, SUM or DECR");
  if (!derived || !operator || operator === derived) return undefined;
  return problemAt("operator", `this metric is ${derived}; leave operator out or say ${derived}`);
};

const WHOLE: ReadonlySet<string> = new Set([
  "XP",
  "LEVEL",
  "CURRENCY",
  "STREAK",
  "BADGE_POINTS",
  "ADVENTURE_POINTS",
  "QUESTS_COMPLETED",
]);

const wholeProblem = ({ metric, scoreDecimals }: Given): DefinitionProblem | undefined =>
  scoreDecimals !== 0 && WHOLE.has(metric.source)
    ? problemAt("scoreDecimals", `${metric.source} is whole`)
    : undefined;

const SUBMITTED = ["bounds", "entryCost", "maxSubmissionsPerPeriod"] as const;

const submittedProblem = (given: Given): DefinitionProblem | undefined => {
  if (given.metric.source === "CUSTOM") return undefined;
  const field = SUBMITTED.find((name) => given[name] !== undefined);
  return field && problemAt(field, "only for CUSTOM boards: it is about scores that are submitted");
};

/** Boards that add scores up keep nothing before there is an entry; total XP is part of the player. */
const entryProblem = ({ metric, operator, period, minScoreToEnter }: Given) => {
  if (minScoreToEnter === undefined) return undefined;
  if (metric.source === "XP" && period.kind === "ALL_TIME") return undefined;
  const adds = operatorOf(metric) ?? operator;
  return adds === "SUM" || adds === "DECR"
    ? problemAt("minScoreToEnter", "not available yet for boards that add scores up")
    : undefined;
};

const backfillProblem = ({ metric, backfill }: Given): DefinitionProblem | undefined =>
  metric.source !== "EVENT" && backfill
    ? problemAt("backfill", "only for EVENT boards; XP boards start with every player's XP")
    : undefined;

const breakdownProblem = ({ metric, breakdownAttribute, breakdownProperty }: Given) => {
  if (breakdownProperty === undefined) return undefined;
  if (metric.source !== "EVENT") return problemAt("breakdownProperty", "only for EVENT boards");
  return breakdownAttribute === undefined
    ? undefined
    : problemAt("breakdownProperty", "a board has one breakdown: omit breakdownAttribute");
};

const CHECKS = [
  operatorProblem,
  wholeProblem,
  submittedProblem,
  entryProblem,
  backfillProblem,
  breakdownProblem,
];

/** Returns the first conflict between fields. */
export const definitionProblem = (given: Given): DefinitionProblem | undefined =>
  firstOf(CHECKS, (check) => check(given));

const DISPLAY_LIMIT_MAX = 1_000_000;
const SUBMISSIONS_MAX = 1_000_000;

const SORTS = ["DESC", "ASC"] as const;
export type Sort = (typeof SORTS)[number];

/** Optional fields, in the definition as in responses. */
const optional = {
  description: Description.optional(),
  audience: Entrants.optional(),
  breakdownAttribute: Path.optional().describe(
    "One ranking per value of this player attribute; players without a value have no entry",
  ),
  breakdownProperty: Path.optional().describe(
    "EVENT boards: one ranking per value of this event property; events without a value do not count",
  ),
  minScoreToEnter: z
    .number()
    .describe("Minimum first score: a player without an entry enters with a score this good or better")
    .optional(),
  displayLimit: z
    .int()
    .min(1)
    .max(DISPLAY_LIMIT_MAX)
    .describe("Maximum rank shown on pages; default: all")
    .optional(),
  entryCost: EntryCost.optional(),
  maxSubmissionsPerPeriod: z
    .int()
    .min(1)
    .max(SUBMISSIONS_MAX)
    .describe("Maximum scores that a player may submit in one period")
    .optional(),
  bounds: Bounds.optional(),
  rankChange: RankChange.optional(),
  prizes: Prizes.optional(),
};

const fields = {
  ...optional,
  metric: Metric,
  sort: z.enum(SORTS).default("DESC").describe("DESC: higher is better; ASC: lower is better"),
  scoreDecimals: z.int().min(0).max(6).default(0),
  period: Period.default({ kind: "ALL_TIME", timezone: "UTC" }),
  ties: z
    .enum(TIES)
    .describe("Ranking of equal scores: by who reached it first or last, 1-2-2-4 or 1-2-2-3")
    .default("EARLIEST"),
  prizeClaim: z
    .enum(["AUTO", "CLAIM"])
    .describe("AUTO: granted at once; CLAIM: waits in the inbox")
    .default("AUTO"),
  prizesForLate: z
    .boolean()
    .describe("Whether periods that were over when their first score arrived give prizes")
    .default(false),
  authoritative: z
    .literal(true, { error: "false is not available yet: scores come from API keys and rules" })
    .default(true),
};

/**
 * The stored definition besides key and name: with the operator, which may be omitted on creation where it
 * is implied.
 */
export const Definition = z.object({ ...fields, operator: z.enum(OPERATORS) });
export type Definition = z.output<typeof Definition>;

const OperatorField = z.enum(OPERATORS, { error: "must be BEST, LATEST, SUM or DECR" });

/** A leaderboard to create, in a body or a document; the project completes the time zone. */
export const NewLeaderboard = boundBytes(
  z
    .strictObject(
      {
        key: Key,
        name: Name,
        ...fields,
        period: AskedPeriod.default({ kind: "ALL_TIME" }),
        operator: OperatorField.optional().describe(
          "Required for CUSTOM; for other sources it follows from the metric",
        ),
        league: z.never({ error: "leagues are not available yet" }).optional(),
        backfill: z
          .boolean()
          .default(false)
          .describe("EVENT boards: whether to count events that were processed before"),
      },
      NOT_SUPPORTED,
    )
    .transform((given, context) => {
      const { league: _league, ...definition } = given;
      const operator: Operator | undefined = operatorOf(definition.metric) ?? definition.operator;
      const problem = definitionProblem(definition);
      if (problem) context.addIssue({ code: "custom", ...problem });
      return problem || !operator ? z.NEVER : { ...definition, operator };
    }),
  DEFINITION_MAX_BYTES,
);
export type NewLeaderboard = z.output<typeof NewLeaderboard>;

const { breakdownAttribute: _attribute, breakdownProperty: _property, ...cleared } = optional;
const { ties, prizeClaim, prizesForLate } = fields;

/** Fields that may change later. The meaning of scores cannot change: that takes a new leaderboard. */
export const LeaderboardPatch = boundBytes(
  z.strictObject(
    {
      ...patchOf(cleared),
      ...patchOf({ name: Name, ties, prizeClaim, prizesForLate }),
      period: PeriodPatch.optional(),
      version: z.int().optional().describe("The version that was read; 409 if it has changed"),
    },
    unknownFields("cannot change; create another leaderboard"),
  ),
  DEFINITION_MAX_BYTES + PATCH_MORE_BYTES,
);
export type LeaderboardPatch = z.output<typeof LeaderboardPatch>;

/** Fields that null clears. */
export const CLEARED_FIELDS = Object.keys(cleared) as (keyof typeof cleared)[];
