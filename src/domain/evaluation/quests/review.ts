import type { EventData } from "../../kernel/events/domain-events.ts";
import { publish } from "../emit.ts";
import { write } from "../event-steps.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { CompiledQuest } from "./compile.ts";
import { settleSteps } from "./progress.ts";
import type { QuestRow, StepProgress } from "./row.ts";
import { inProgress } from "./settle.ts";
import { storeRow, subjectOf } from "./store.ts";

export const DECISIONS = ["APPROVE", "REJECT"] as const;

/** A decision about a submission that waits; without `submissionId`, the oldest of the step. */
export type Review = {
  stepKey: string;
  submissionId?: string | undefined;
  decision: (typeof DECISIONS)[number];
  /** For the player. */
  note: string | null;
  by: string;
};

/** Tells the player and webhooks of a decision: it is a line of the player's stream. */
const tell = (
  turn: PlanTurn,
  quest: CompiledQuest,
  { row, id, review }: { row: QuestRow; id: string; review: Review },
): void => {
  const { stepKey, decision, note } = review;
  const data: EventData<"quest.submission_approved"> = {
    ...subjectOf(turn, quest, row),
    questId: quest.id,
    stepKey,
    submissionId: id,
    note,
  };
  publish(turn, `quest.submission_${decision === "APPROVE" ? "approved" : "rejected"}`, data);
};

/**
 * Decides about a submission for a step of a player's quest, which has been settled: approved, it counts.
 * @returns the submission, or why that is not possible
 */
export const reviewNow = (
  turn: PlanTurn,
  quest: CompiledQuest,
  review: Review,
): { id: string; row: QuestRow } | string => {
  const { stepKey, submissionId, decision, note, by } = review;
  const running = inProgress(turn, quest);
  if (!running) return "the quest is not in progress";
  const { version, row } = running;
  const { pending = [], value = 0, ...progress } = row.steps[stepKey] ?? {};
  const id = pending.find((one) => submissionId === undefined || one === submissionId);
  if (id === undefined) return `nothing of the step ${stepKey} waits for a review`;
  const isApproved = decision === "APPROVE";
  const status = isApproved ? "APPROVED" : "REJECTED";
  write(turn, "submissionDecisions", {
    id,
    projectId: turn.player.projectId,
    status,
    by,
    note,
    atMs: turn.nowMs,
  });
  tell(turn, quest, { row, id, review });
  const waiting = pending.filter((one) => one !== id);
  const step: StepProgress = {
    ...progress,
    value: value + (isApproved ? 1 : 0),
    ...(waiting.length === 0 ? {} : { pending: waiting }),
  };
  const next = { ...row, steps: { ...row.steps, [stepKey]: step } };
  storeRow(turn, quest.key, next);
  settleSteps(turn, version, next);
  return { id, row };
};
