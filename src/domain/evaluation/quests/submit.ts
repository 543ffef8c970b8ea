import { createHash, timingSafeEqual } from "node:crypto";
import type { QuestSubmissionRow } from "../effects.ts";
import { publish } from "../emit.ts";
import type { PlanTurn } from "../project-plan.ts";
import {
  attemptsLeft,
  type CompiledQuest,
  type CompiledStep,
  type StepState,
  stepStates,
} from "./compile.ts";
import { withEnd } from "./context.ts";
import { freeCycle, inProgress, type Running, settleSteps, startQuest } from "./progress.ts";
import type { QuestRow, StepProgress } from "./row.ts";
import { startable, unavailable } from "./show.ts";
import type { CodeStep, ManualStep, QuizStep } from "./step.ts";
import { storeRow, subjectOf } from "./store.ts";
import { write } from "../turn.ts";
import type { EventData } from "../../kernel/events/domain-events.ts";
import { newId } from "../../kernel/ids.ts";

/** Returns the SHA-256 of a code, in hexadecimal: how it is written does not matter. */
export const hashOfCode = (code: string): string =>
  createHash("sha256").update(code.normalize("NFKC").toLowerCase().trim()).digest("hex");

/** Returns whether a hash is one of several, in a time that does not tell how much agrees with which. */
const isOneOf = (hash: string, hashes: readonly string[]): boolean => {
  const given = Buffer.from(hash, "hex");
  let isFound = false;
  for (const one of hashes) {
    const isSame = timingSafeEqual(given, Buffer.from(one, "hex"));
    isFound = isFound || isSame;
  }
  return isFound;
};

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

/** Maximum characters of evidence that is a text, and of an address. */
const EVIDENCE_TEXT_MAX = 2_000;
export const EVIDENCE_URL_MAX = 2_048;

/** What a player submits for a step, by the kind of the step. */
export type Submission =
  | { kind: "MANUAL"; evidence?: string | undefined }
  /** `hash`: of the code; `isTaken`: whether it was taken from the step's pool for the player. */
  | { kind: "CODE"; hash: string; isTaken: boolean }
  /** Places of the chosen options, by key of the question. */
  | { kind: "QUIZ"; answers: Readonly<Record<string, readonly number[]>> };

/** Why a submission is refused: for its `field`, an unknown step, or what the quest or step is. */
export type SubmitProblem =
  | { field: string; message: string }
  | { unknown: "step" }
  | { reason: string; message: string };

/** What has become of a submission. */
export type Submitted = {
  /** The row that it was for, as it was before what follows. */
  row: QuestRow;
  accepted: boolean;
  /** QUIZ: percent of right answers. */
  score?: number;
  attemptsLeft?: number;
  /** MANUAL: the id of what was stored for a review or as evidence. */
  submissionId?: string;
  /** Whether the code that was taken from the pool has been used. */
  isPoolUsed: boolean;
};

/** Starts a quest that starts by itself: the submission is what begins it. */
const begin = (turn: PlanTurn, quest: CompiledQuest): Running | SubmitProblem => {
  if (quest.definition.start.mode !== "AUTO")
    return unavailable("the quest has not been started: start it first");
  if (freeCycle(turn, quest)?.again?.state === "ABANDONED")
    return unavailable("the quest was abandoned: start it again");
  const next = startable(turn, quest);
  return "reason" in next ? next : { version: quest, row: startQuest(turn, quest, next, "AUTO") };
};

type Applied = {
  progress: StepProgress;
  outcome: Pick<Submitted, "accepted" | "score" | "submissionId">;
};
type Applying = Running & { step: CompiledStep };

const isUrl = (text: string): boolean => {
  if (text.length > EVIDENCE_URL_MAX || !URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === "" && password === "";
};

type Evidence = Pick<QuestSubmissionRow, "evidenceType" | "evidence">;

const WANTED: Readonly<Record<Exclude<ManualStep["evidence"], "NONE">, string>> = {
  TEXT: "a text",
  URL: "an address of http or https",
  ANY: "a text, or an address of http or https",
};

const evidenceOf = (mode: ManualStep["evidence"], given: string | undefined): Evidence | SubmitProblem => {
  const refuse = (message: string): SubmitProblem => ({ field: "evidence", message });
  if (mode === "NONE")
    return given === undefined
      ? { evidenceType: null, evidence: null }
      : refuse("the step takes no evidence");
  if (given === undefined) return refuse(`is needed for this step: ${WANTED[mode]}`);
  if (mode !== "TEXT" && isUrl(given)) return { evidenceType: "URL", evidence: given };
  if (mode === "URL")
    return refuse(`must be an address of http or https with at most ${EVIDENCE_URL_MAX} characters`);
  if (given.length > EVIDENCE_TEXT_MAX) return refuse(`must have at most ${EVIDENCE_TEXT_MAX} characters`);
  return { evidenceType: "TEXT", evidence: given };
};

const confirm = (
  turn: PlanTurn,
  { version, row, step }: Applying,
  given?: string,
): Applied | SubmitProblem => {
  const { key: stepKey, requiresApproval, evidence: mode } = step.definition as ManualStep;
  const evidence = evidenceOf(mode, given);
  if (!("evidence" in evidence)) return evidence;
  const id = newId();
  const { player, nowMs: atMs } = turn;
  const { playerQuestId, questKey, cycleKey, ...ref } = subjectOf(turn, version, row);
  const subject = { playerQuestId, questKey, cycleKey, stepKey };
  const status = requiresApproval ? "PENDING" : "CONFIRMED";
  const isStored = requiresApproval || evidence.evidence !== null;
  if (isStored)
    write(turn, "questSubmissions", {
      id,
      projectId: player.projectId,
      playerId: player.id,
      ...subject,
      ...evidence,
      status,
      atMs,
    });
  const outcome = { accepted: true, ...(isStored ? { submissionId: id } : {}) };
  const progress = row.steps[stepKey] ?? {};
  if (!requiresApproval) return { progress: { ...progress, value: (progress.value ?? 0) + 1 }, outcome };
  const about = { questId: version.id, submissionId: id, ...evidence };
  publish(turn, "quest.approval_requested", { ...ref, ...subject, ...about }, { isSilent: true });
  return { progress: { ...progress, pending: [...(progress.pending ?? []), id] }, outcome };
};

/** Counts an attempt at a step: the last one that is wrong fails it. */
const tried = (
  { row, step }: Applying,
  { isRight, value, atMs }: { isRight: boolean; value: number; atMs: number },
): StepProgress => {
  const progress = row.steps[step.definition.key] ?? {};
  const { maxAttempts = Infinity } = step.definition as CodeStep | QuizStep;
  const attempts = (progress.attempts ?? 0) + 1;
  const isOver = !isRight && attempts >= maxAttempts;
  return {
    ...progress,
    attempts,
    value: Math.max(progress.value ?? 0, value),
    ...(isOver ? { failedMs: atMs } : {}),
  };
};

const enter = (
  turn: PlanTurn,
  applying: Applying,
  { hash, isTaken }: { hash: string; isTaken: boolean },
): Applied => {
  const { perPlayerCodes, codeHashes = [] } = applying.step.definition as CodeStep;
  const isRight = perPlayerCodes ? isTaken : isOneOf(hash, codeHashes);
  const progress = tried(applying, { isRight, value: isRight ? 1 : 0, atMs: turn.event.at });
  return { progress, outcome: { accepted: isRight } };
};

const isSameSet = (given: readonly number[], right: readonly number[]): boolean => {
  const chosen = new Set(given);
  return chosen.size === right.length && right.every((place) => chosen.has(place));
};

const answer = (
  turn: PlanTurn,
  applying: Applying,
  answers: Readonly<Record<string, readonly number[]>>,
): Applied | SubmitProblem => {
  const { questions, passScore } = applying.step.definition as QuizStep;
  const byKey = new Map(questions.map((question) => [question.key, question]));
  for (const [key, places] of Object.entries(answers)) {
    const question = byKey.get(key);
    if (!question) {
      const message = `there is no such question; there are ${[...byKey.keys()].join(", ")}`;
      return { field: `answers.${key}`, message };
    }
    const bad = places.findIndex((place) => place >= question.options.length);
    if (bad !== -1)
      return { field: `answers.${key}.${bad}`, message: `there is no option ${places[bad]}: the first is 0` };
  }
  const right = questions.filter(({ key, correct }) => {
    return Object.hasOwn(answers, key) && isSameSet(answers[key]!, correct);
  });
  const score = Math.floor((100 * right.length) / questions.length);
  const isRight = score >= passScore;
  const progress = tried(applying, { isRight, value: score, atMs: turn.event.at });
  return { progress, outcome: { accepted: isRight, score } };
};

const apply = (turn: PlanTurn, applying: Applying, submission: Submission): Applied | SubmitProblem => {
  switch (submission.kind) {
    case "MANUAL":
      return confirm(turn, applying, submission.evidence);
    case "CODE":
      return enter(turn, applying, submission);
    case "QUIZ":
      return answer(turn, applying, submission.answers);
  }
};

const FIELDS: Readonly<Record<Submission["kind"], string>> = {
  MANUAL: "evidence",
  CODE: "code",
  QUIZ: "answers",
};

/** The fields of a submission are those of another kind of step, or the step does not take submissions. */
const wrongKind = ({ definition: { key, kind } }: CompiledStep, submission: Submission): SubmitProblem => {
  if (kind === "EVENT" || kind === "STATE")
    return { reason: "INVALID_STATE", message: `the step ${key} of kind ${kind} takes no submissions` };
  const wants = kind === "MANUAL" ? "" : `, which takes ${FIELDS[kind]}`;
  const isEmpty = submission.kind === "MANUAL" && submission.evidence === undefined;
  if (isEmpty) return { field: FIELDS[kind], message: `is needed for a step of kind ${kind}` };
  return { field: FIELDS[submission.kind], message: `is not for a step of kind ${kind}${wants}` };
};

/** The reason, and why, for which a step that is not ACTIVE takes no submission. */
const CLOSED: Readonly<Record<Exclude<StepState, "ACTIVE">, readonly [reason: string, why: string]>> = {
  LOCKED: ["STEP_LOCKED", "others must be done before it"],
  PENDING_APPROVAL: ["STEP_PENDING_APPROVAL", "what was submitted waits for a review"],
  DONE: ["STEP_DONE", "it is done once in a cycle"],
  FAILED: ["STEP_FAILED", "no attempts are left in this cycle"],
};

const isStepOf = ({ steps }: CompiledQuest, stepKey: string): boolean =>
  steps.some(({ definition }) => definition.key === stepKey);

/** Returns the step that a submission is for, with the row, which begins where the quest may start. */
const openStep = (
  turn: PlanTurn,
  quest: CompiledQuest,
  { stepKey, submission }: { stepKey: string; submission: Submission },
): Applying | SubmitProblem => {
  if (![quest, ...quest.earlier.values()].some((one) => isStepOf(one, stepKey))) return { unknown: "step" };
  const running = inProgress(turn, quest) ?? begin(turn, quest);
  if (!("row" in running)) return running;
  const { version, row } = running;
  const place = version.steps.findIndex(({ definition }) => definition.key === stepKey);
  const step = version.steps[place];
  if (!step) return { unknown: "step" };
  if (step.definition.kind !== submission.kind) return wrongKind(step, submission);
  const state = stepStates(version, row)[place]!;
  if (state === "ACTIVE") return { version, row, step };
  const [reason, why] = CLOSED[state];
  return { reason, message: `the step ${stepKey} is ${state}: ${why}` };
};

/**
 * Submits something for a step of a player's quest, which has been settled: a confirmation, a code or
 * answers. A quest that starts by itself is started by it. Progress is applied as that of events is.
 */
export const submitNow = (
  turn: PlanTurn,
  quest: CompiledQuest,
  order: { stepKey: string; submission: Submission },
): Submitted | SubmitProblem => {
  const opened = openStep(turn, quest, order);
  if (!("step" in opened)) return opened;
  const applied = apply(turn, opened, order.submission);
  if (!("progress" in applied)) return applied;
  const { version, row, step } = opened;
  const steps = { ...row.steps, [order.stepKey]: applied.progress };
  const next = applied.progress.pending ? withEnd(quest, { ...row, steps }) : { ...row, steps };
  storeRow(turn, quest.key, next);
  settleSteps(turn, version, next);
  const left = attemptsLeft(step, next);
  const { definition } = step;
  const isPoolUsed = applied.outcome.accepted && definition.kind === "CODE" && definition.perPlayerCodes;
  return { row, ...applied.outcome, isPoolUsed, ...(left === undefined ? {} : { attemptsLeft: left }) };
};
