import type { QuestStep } from "./step.ts";

/** The fields of a quest that decide in which order its steps are done. */
export type StepPlan = {
  stepMode: "SEQUENTIAL" | "PARALLEL" | "ANY";
  requiredSteps?: number | undefined;
  steps: readonly Pick<QuestStep, "key" | "optional" | "dependsOn">[];
};

type Problem = { path: (string | number)[]; message: string };

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
