import { z } from "zod";
import { Description, FieldKey, Key, Name } from "../language/syntax.ts";
import type { Problem, Refuse } from "../language/trees.ts";
import { DISTINCT_MAX } from "../metrics/aggregates.ts";
import { Filter, WindowlessMetric } from "../metrics/compile.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { SegmentConditions } from "../segments/membership.ts";
import { CALENDAR_UNITS } from "../../kernel/zones.ts";

const TARGET_MAX = 9e9;
/** Maximum prerequisites of one step. */
const DEPENDS_MAX = 20;

/** Consecutive local periods with at least one event. */
const StreakMetric = z.strictObject({
  eventTypes: WindowlessMetric.shape.eventTypes,
  filter: Filter.optional(),
  aggregate: z.literal("streak"),
  period: z.enum(CALENDAR_UNITS),
  timezone: z.enum(["PLAYER", "PROJECT"]).default("PLAYER"),
});

/** Small open data of integrators. */
export const Metadata = z.record(z.string().max(64), z.unknown());

const common = {
  key: FieldKey,
  name: Name,
  description: Description.optional(),
  optional: z.boolean().default(false).describe("Whether the quest completes without it"),
  dependsOn: z
    .array(Key)
    .max(DEPENDS_MAX)
    .default([])
    .describe("PARALLEL only: steps that must be done before this one is active"),
  rewards: RewardBundle.optional().describe("Granted when the step is done, once in a cycle"),
  metadata: Metadata.optional(),
};

const COUNT_FROM = ["STEP_START", "QUEST_START", "LIFETIME"] as const;

const EventStep = z.strictObject({
  ...common,
  kind: z.literal("EVENT"),
  metric: z.discriminatedUnion("aggregate", [StreakMetric, WindowlessMetric]),
  target: z
    .number()
    .min(-TARGET_MAX)
    .max(TARGET_MAX)
    .describe("The value at which the step is done: at least this, or at most this for `min`"),
  countFrom: z
    .enum(COUNT_FROM)
    .default("STEP_START")
    .describe("Which events count: since the step or the quest began, or all of the player's"),
});

const StateStep = z.strictObject({
  ...common,
  kind: z.literal("STATE"),
  condition: SegmentConditions.describe(
    "Conditions on the player, checked when something that they read changes",
  ),
});

/** Maximum confirmations that a MANUAL step takes. */
const CONFIRMATIONS_MAX = 100;
export const EVIDENCE_MODES = ["NONE", "TEXT", "URL", "ANY"] as const;

const ManualStep = z.strictObject({
  ...common,
  kind: z.literal("MANUAL"),
  target: z.int().min(1).max(CONFIRMATIONS_MAX).default(1).describe("How many confirmations it takes"),
  requiresApproval: z
    .boolean()
    .default(false)
    .describe("Whether a confirmation counts once somebody has approved it"),
  evidence: z
    .enum(EVIDENCE_MODES)
    .default("NONE")
    .describe("What comes with a confirmation: nothing, a text, an address of http or https, or either"),
});

/** Maximum shared codes of one step. */
const CODE_HASHES_MAX = 50;
const ATTEMPTS_MAX = 1_000;
const maxAttempts = z
  .int()
  .min(1)
  .max(ATTEMPTS_MAX)
  .optional()
  .describe("After so many attempts in a cycle the step has failed; default: no limit");

const CodeStep = z.strictObject({
  ...common,
  kind: z.literal("CODE"),
  codeHashes: z
    .array(z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 as 64 digits of lower-case hexadecimal"))
    .max(CODE_HASHES_MAX)
    .optional()
    .describe(
      "SHA-256 of each code, in NFKC, lower case and trimmed. No answer shows them: a change that leaves " +
        "them out keeps those that are there",
    ),
  perPlayerCodes: z
    .boolean()
    .default(false)
    .describe("Whether codes are of the step's pool, of which each serves one player once"),
  maxAttempts,
});

/** Maximum questions of one quiz, and options of one question. */
export const QUESTIONS_MAX = 50;
const OPTIONS_MAX = 20;

const Question = z.strictObject({
  key: Key,
  prompt: z.string().min(1).max(500),
  options: z.array(z.string().min(1).max(200)).min(2).max(OPTIONS_MAX),
  correct: z
    .array(
      z
        .int()
        .min(0)
        .max(OPTIONS_MAX - 1),
    )
    .min(1)
    .max(OPTIONS_MAX)
    .describe("Places of the right options, from 0; an answer must name these and no others"),
});

const QuizStep = z.strictObject({
  ...common,
  kind: z.literal("QUIZ"),
  questions: z.array(Question).min(1).max(QUESTIONS_MAX),
  passScore: z.int().min(1).max(100).describe("Percent of right answers at which it is passed"),
  maxAttempts,
});

/** A step of a quest. */
export const QuestStep = z.discriminatedUnion(
  "kind",
  [EventStep, StateStep, ManualStep, CodeStep, QuizStep],
  {
    error: "must have a kind of EVENT, STATE, MANUAL, CODE or QUIZ",
  },
);
export type QuestStep = z.output<typeof QuestStep>;

/** A step as answers show it: without codes, and without answers to whoever does not write quests. */
export const ShownQuestStep = z.discriminatedUnion("kind", [
  EventStep,
  StateStep,
  ManualStep,
  CodeStep.omit({ codeHashes: true }),
  QuizStep.extend({ questions: z.array(Question.partial({ correct: true })) }),
]);
export type EventStep = z.output<typeof EventStep>;
type StateStep = z.output<typeof StateStep>;
export type ManualStep = z.output<typeof ManualStep>;
export type CodeStep = z.output<typeof CodeStep>;
export type QuizStep = z.output<typeof QuizStep>;

const COUNTING: ReadonlySet<string> = new Set(["count", "distinct", "streak"]);

/** Reports what the schema of a single step cannot check. */
export const checkStep = (step: QuestStep, refuse: Refuse): void => {
  if (step.kind === "EVENT") checkEvents(step, refuse);
  if (step.kind === "CODE") checkCodes(step, refuse);
  if (step.kind === "QUIZ") checkQuestions(step, refuse);
};

const checkCodes = ({ codeHashes = [], perPlayerCodes }: CodeStep, refuse: Refuse): void => {
  if (perPlayerCodes && codeHashes.length > 0)
    refuse(["codeHashes"], "are shared codes: with perPlayerCodes, codes are added to the step's pool");
};

const repeated = <T>(values: readonly T[]): number => values.findIndex((one, i) => values.indexOf(one) < i);

const checkQuestions = ({ questions }: QuizStep, refuse: Refuse): void => {
  const twice = repeated(questions.map(({ key }) => key));
  if (twice !== -1) refuse(["questions", twice, "key"], "is that of another question");
  questions.forEach(({ options, correct }, i) => {
    const path = ["questions", i];
    if (repeated(options) !== -1) refuse([...path, "options", repeated(options)], "is there twice");
    if (repeated(correct) !== -1) refuse([...path, "correct", repeated(correct)], "is there twice");
    correct.forEach((place, n) => {
      if (place >= options.length)
        refuse([...path, "correct", n], `there is no option ${place}: the first one is 0`);
    });
  });
};

const checkEvents = (step: EventStep, refuse: Refuse): void => {
  const { metric, target, countFrom } = step;
  const { aggregate } = metric;
  if (COUNTING.has(aggregate) && (target < 1 || !Number.isInteger(target)))
    refuse(["target"], `must be a whole number of at least 1 for ${aggregate}`);
  if (aggregate === "distinct" && target > DISTINCT_MAX)
    refuse(["target"], `distinct counts to ${DISTINCT_MAX}`);
  if (aggregate === "streak" && countFrom === "LIFETIME")
    refuse(["countFrom"], "a streak counts from the start of the step or the quest");
};

/** The fields of a quest that decide in which order its steps are done. */
type StepPlan = {
  stepMode: "SEQUENTIAL" | "PARALLEL" | "ANY";
  requiredSteps?: number | undefined;
  steps: readonly Pick<QuestStep, "key" | "optional" | "dependsOn">[];
};

const dependencyProblems = ({ stepMode, steps }: StepPlan): Problem[] => {
  const byKey = new Map(steps.map((step) => [step.key, step]));
  return steps.flatMap(({ key, optional, dependsOn }, i): Problem[] => {
    const path = ["steps", i, "dependsOn"];
    if (dependsOn.length > 0 && stepMode !== "PARALLEL")
      return [{ path, message: `is only for a stepMode of PARALLEL, and this is ${stepMode}` }];
    return dependsOn.flatMap((needed, n): Problem[] => {
      const at = [...path, n];
      const step = byKey.get(needed);
      if (!step) return [{ path: at, message: `there is no step ${needed}` }];
      if (needed === key) return [{ path: at, message: "a step cannot depend on itself" }];
      if (step.optional && !optional)
        return [{ path: at, message: `the step ${needed} is optional: a required one cannot depend on it` }];
      return [];
    });
  });
};

/** Returns the keys of steps that depend on one another, the first one again at the end; empty for none. */
const circleOf = ({ steps }: StepPlan): string[] => {
  const open = new Map(steps.map(({ key, dependsOn }) => [key, new Set(dependsOn)]));
  for (;;) {
    const ready = [...open].filter(([, needs]) => [...needs].every((key) => !open.has(key)));
    if (ready.length === 0) return wayRound(open);
    for (const [key] of ready) open.delete(key);
  }
};

/** Follows steps that all wait for one of them, until one comes again. */
const wayRound = (open: ReadonlyMap<string, ReadonlySet<string>>): string[] => {
  const way: string[] = [];
  let key = open.keys().next().value;
  while (key !== undefined && !way.includes(key)) {
    way.push(key);
    key = [...open.get(key)!].find((needed) => open.has(needed));
  }
  return key === undefined ? [] : [...way.slice(way.indexOf(key)), key];
};

/** Returns why the steps of a quest cannot be done, or the quest cannot end; empty if they can. */
export const stepProblems = (plan: StepPlan): Problem[] => {
  const { stepMode, requiredSteps, steps } = plan;
  const problems: Problem[] = [];
  const seen = new Set<string>();
  steps.forEach(({ key }, i) => {
    if (seen.has(key)) problems.push({ path: ["steps", i, "key"], message: "is that of another step" });
    seen.add(key);
  });
  problems.push(...dependencyProblems(plan));
  if (problems.length === 0) {
    const circle = circleOf(plan);
    if (circle.length > 0)
      problems.push({ path: ["steps"], message: `depend on one another in a circle: ${circle.join(" → ")}` });
  }
  if (stepMode !== "ANY" && requiredSteps !== undefined)
    problems.push({
      path: ["requiredSteps"],
      message: `is only for a stepMode of ANY, and this is ${stepMode}`,
    });
  const countable = steps.filter(({ optional }) => !optional).length;
  if (steps.length === 0) return problems;
  if (countable === 0) problems.push({ path: ["steps"], message: "cannot end: every step is optional" });
  else if (stepMode === "ANY" && (requiredSteps ?? 1) > countable)
    problems.push({
      path: ["requiredSteps"],
      message: `cannot end: ${countable} of the steps are not optional, and ${requiredSteps} are required`,
    });
  return problems;
};

/** Returns which steps are active: not done, and everything that they wait for is done. */
export const activeSteps = ({ stepMode, steps }: StepPlan, isDone: (key: string) => boolean): boolean[] => {
  if (stepMode === "SEQUENTIAL") {
    // Optional steps block nobody: all up to and including the first required one are active.
    const first = steps.findIndex(({ key, optional }) => !optional && !isDone(key));
    return steps.map(({ key }, i) => !isDone(key) && (first === -1 || i <= first));
  }
  return steps.map(({ key, dependsOn }) => !isDone(key) && dependsOn.every(isDone));
};

/** Returns how many steps complete a quest. */
export const requiredOf = ({ stepMode, requiredSteps, steps }: StepPlan): number =>
  stepMode === "ANY" ? (requiredSteps ?? 1) : steps.filter(({ optional }) => !optional).length;

/** Returns whether a quest can still be completed when some steps have failed. */
export const canComplete = (plan: StepPlan, hasFailed: (key: string) => boolean): boolean =>
  plan.steps.filter(({ key, optional }) => !optional && !hasFailed(key)).length >= requiredOf(plan);

/** Returns whether a quest is complete. */
export const isComplete = (plan: StepPlan, isDone: (key: string) => boolean): boolean =>
  plan.steps.filter(({ key, optional }) => !optional && isDone(key)).length >= requiredOf(plan);
