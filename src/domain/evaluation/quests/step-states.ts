import type { CompiledQuest, CompiledStep } from "./compile.ts";
import type { QuestRow, StepProgress } from "./row.ts";
import { activeSteps } from "./step-graph.ts";

export const STEP_STATES = ["LOCKED", "ACTIVE", "PENDING_APPROVAL", "DONE", "FAILED"] as const;
export type StepState = (typeof STEP_STATES)[number];

/**
 * Returns the state of each step of a row. Those with which a quest begins are ACTIVE where it may be
 * started: `isAvailable` decides about a quest without a row.
 */
export const stepStates = (
  quest: CompiledQuest,
  row: QuestRow | undefined,
  isAvailable = false,
): StepState[] => {
  const isOpen = row ? row.state === "IN_PROGRESS" || row.state === "RESET" : isAvailable;
  const active = activeSteps(quest.definition, (key) => row?.steps[key]?.doneMs !== undefined);
  return quest.steps.map((step, i) => {
    const progress = row?.steps[step.definition.key] ?? {};
    if (progress.doneMs !== undefined) return "DONE";
    if (progress.failedMs !== undefined) return "FAILED";
    if (!isOpen || active[i] !== true) return "LOCKED";
    return isAllWaiting(step, progress) ? "PENDING_APPROVAL" : "ACTIVE";
  });
};

/** Whether as much waits for a review as is missing. */
const isAllWaiting = ({ target }: CompiledStep, { value = 0, pending = [] }: StepProgress): boolean =>
  pending.length > 0 && value + pending.length >= target;

/** Returns how often a player may still try a step; undefined where there is no limit. */
export const attemptsLeft = ({ definition }: CompiledStep, row: QuestRow | undefined): number | undefined => {
  if (definition.kind !== "CODE" && definition.kind !== "QUIZ") return undefined;
  const { maxAttempts } = definition;
  if (maxAttempts === undefined) return undefined;
  return Math.max(0, maxAttempts - (row?.steps[definition.key]?.attempts ?? 0));
};
