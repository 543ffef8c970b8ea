import { type Metric, type Operator, operatorOf } from "./board-metric.ts";
import type { Bounds, EntryCost } from "./definition-parts.ts";
import type { AskedPeriod } from "./period.ts";

export type DefinitionProblem = { path: string[]; message: string };

type Given = {
  metric: Metric;
  operator?: Operator | undefined;
  scoreDecimals: number;
  period: AskedPeriod;
  bounds?: Bounds | undefined;
  entryCost?: EntryCost | undefined;
  maxSubmissionsPerPeriod?: number | undefined;
  minScoreToEnter?: number | undefined;
  backfill?: boolean;
  breakdownAttribute?: string | undefined;
  breakdownProperty?: string | undefined;
};

const problem = (path: string, message: string): DefinitionProblem => ({ path: path.split("."), message });

const operatorProblem = ({ metric, operator }: Given): DefinitionProblem | undefined => {
  const derived = operatorOf(metric);
  if (!derived && !operator) return problem("operator", "CUSTOM boards need BEST, LATEST, SUM or DECR");
  if (!derived || !operator || operator === derived) return undefined;
  return problem("operator", `this metric is ${derived}; leave operator out or say ${derived}`);
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
    ? problem("scoreDecimals", `${metric.source} is whole`)
    : undefined;

const SUBMITTED = ["bounds", "entryCost", "maxSubmissionsPerPeriod"] as const;

const submittedProblem = (given: Given): DefinitionProblem | undefined => {
  if (given.metric.source === "CUSTOM") return undefined;
  const field = SUBMITTED.find((name) => given[name] !== undefined);
  return field && problem(field, "only for CUSTOM boards: it is about scores that are submitted");
};

/** Boards that add scores up keep nothing before there is an entry; total XP is part of the player. */
const entryProblem = ({ metric, operator, period, minScoreToEnter }: Given) => {
  if (minScoreToEnter === undefined) return undefined;
  if (metric.source === "XP" && period.kind === "ALL_TIME") return undefined;
  const adds = operatorOf(metric) ?? operator;
  return adds === "SUM" || adds === "DECR"
    ? problem("minScoreToEnter", "not available yet for boards that add scores up")
    : undefined;
};

const backfillProblem = ({ metric, backfill }: Given): DefinitionProblem | undefined =>
  metric.source !== "EVENT" && backfill
    ? problem("backfill", "only for EVENT boards; XP boards start with every player's XP")
    : undefined;

const breakdownProblem = ({ metric, breakdownAttribute, breakdownProperty }: Given) => {
  if (breakdownProperty === undefined) return undefined;
  if (metric.source !== "EVENT") return problem("breakdownProperty", "only for EVENT boards");
  return breakdownAttribute === undefined
    ? undefined
    : problem("breakdownProperty", "a board has one breakdown: omit breakdownAttribute");
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
export const definitionProblem = (given: Given): DefinitionProblem | undefined => {
  for (const check of CHECKS) {
    const found = check(given);
    if (found) return found;
  }
  return undefined;
};
