import type { PlanTurn } from "../project-plan.ts";
import type { CompiledQuest, CompiledStep } from "./compile.ts";
import { activeSteps } from "./step-graph.ts";

const NOTHING_DONE = (): boolean => false;

/** Returns the steps that are active as soon as the quest has started, or count from then on. */
export const firstSteps = ({ definition, steps }: CompiledQuest): CompiledStep[] => {
  const active = activeSteps(definition, NOTHING_DONE);
  return steps.filter((_step, i) => active[i] === true);
};

/** Returns whether the turn's event counts for a step that is active at the start. */
export const beginsByEvent = (turn: PlanTurn, quest: CompiledQuest): boolean => {
  const counting = new Set(quest.stepsFor(turn.event.type).map((place) => quest.steps[place]));
  if (counting.size === 0) return false;
  return firstSteps(quest).some(
    (step) => counting.has(step) && (step.sampleOf ?? step.lifetime?.sampleOf)?.(turn) !== undefined,
  );
};
