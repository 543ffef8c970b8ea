import { z } from "zod";
import { DEFINITION_MAX_BYTES, PATCH_MORE_BYTES } from "../../kernel/limits.ts";
import { boundBytes } from "../../kernel/oversize.ts";
import { Key, Path } from "../language/syntax.ts";
import { Metric, type Operator, operatorOf, OPERATORS } from "./board-metric.ts";
import { Audience, Bounds, EntryCost, PRIZE_CLAIMS, Prizes, RankChange } from "./definition-parts.ts";
import { definitionProblem } from "./definition-problems.ts";
import { AskedPeriod, Period, PeriodPatch } from "./period.ts";
import { TIES } from "./ranks.ts";
import { NOT_SUPPORTED, unknownFields } from "./unknown-fields.ts";

export const NAME_MAX = 100;
export const DESCRIPTION_MAX = 2_000;
export const DISPLAY_LIMIT_MAX = 1_000_000;
export const SUBMISSIONS_MAX = 1_000_000;

export const SORTS = ["DESC", "ASC"] as const;
export type Sort = (typeof SORTS)[number];

const Name = z.string().min(1).max(NAME_MAX);
const Description = z.string().max(DESCRIPTION_MAX);
const TiesField = z
  .enum(TIES)
  .describe("Ranking of equal scores: by who reached it first or last, 1-2-2-4 or 1-2-2-3");
const DisplayLimit = z
  .int()
  .min(1)
  .max(DISPLAY_LIMIT_MAX)
  .describe("Maximum rank shown on pages; default: all");
const Submissions = z
  .int()
  .min(1)
  .max(SUBMISSIONS_MAX)
  .describe("Maximum scores that a player may submit in one period");
const MinScore = z
  .number()
  .describe("Minimum first score: a player without an entry enters with a score this good or better");
const PrizeClaim = z.enum(PRIZE_CLAIMS).describe("AUTO: granted at once; CLAIM: waits in the inbox");
const PrizesForLate = z
  .boolean()
  .describe("Whether periods that were over when their first score arrived give prizes");

/** Optional fields, in the definition as in responses. */
const optional = {
  description: Description.optional(),
  audience: Audience.optional(),
  breakdownAttribute: Path.optional().describe(
    "One ranking per value of this player attribute; players without a value have no entry",
  ),
  breakdownProperty: Path.optional().describe(
    "EVENT boards: one ranking per value of this event property; events without a value do not count",
  ),
  minScoreToEnter: MinScore.optional(),
  displayLimit: DisplayLimit.optional(),
  entryCost: EntryCost.optional(),
  maxSubmissionsPerPeriod: Submissions.optional(),
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
  ties: TiesField.default("EARLIEST"),
  prizeClaim: PrizeClaim.default("AUTO"),
  prizesForLate: PrizesForLate.default(false),
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
      if (problem) context.addIssue({ code: "custom", path: problem.path, message: problem.message });
      return problem || !operator ? z.NEVER : { ...definition, operator };
    }),
  DEFINITION_MAX_BYTES,
);
export type NewLeaderboard = z.output<typeof NewLeaderboard>;

/** Fields that a patch sets, or clears with null. */
const cleared = {
  description: Description.nullable().optional(),
  audience: Audience.nullable().optional(),
  minScoreToEnter: MinScore.nullable().optional(),
  displayLimit: DisplayLimit.nullable().optional(),
  entryCost: EntryCost.nullable().optional(),
  maxSubmissionsPerPeriod: Submissions.nullable().optional(),
  bounds: Bounds.nullable().optional(),
  rankChange: RankChange.nullable().optional(),
  prizes: Prizes.nullable().optional(),
};

/** Fields that may change later. The meaning of scores cannot change: that takes a new leaderboard. */
export const LeaderboardPatch = boundBytes(
  z.strictObject(
    {
      ...cleared,
      name: Name.optional(),
      ties: TiesField.optional(),
      prizeClaim: PrizeClaim.optional(),
      prizesForLate: PrizesForLate.optional(),
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
