import { z } from "zod";
import {
  addStepCodes,
  admitAttempt,
  listSubmissions,
  reviewPlayerStep,
  STEP_CODES_MAX,
  SUBMISSION_ORDERS,
  SUBMISSION_STATUSES,
  submitPlayerStep,
  SubmittedBody,
} from "../../domain/economy/quests/submissions.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { DECISIONS } from "../../domain/evaluation/quests/submit.ts";
import { LIMITS } from "../../domain/accounts/rate-limits/limiter.ts";
import { DESIGNERS } from "../../domain/kernel/caller.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";

import { ByPlayer, pageReply, sortedBy } from "./list-bodies.ts";
import { manageQuests, PlayerQuestBody, readQuests, writeQuests } from "./quest-bodies.ts";

const SubmissionAnswer = z
  .object({
    accepted: z.boolean().meta({ description: "Whether the code is right, or the quiz is passed" }),
    score: z.int().optional().meta({ description: "QUIZ: percent of right answers" }),
    attemptsLeft: z.int().optional().meta({ description: "CODE and QUIZ with `maxAttempts`" }),
    submissionId: z.uuid().optional().meta({ description: "MANUAL: what is stored, as in `/quest-reviews`" }),
    playerQuest: PlayerQuestBody,
  })
  .meta({ id: "QuestSubmissionAnswer" });

const SubmissionBody = z
  .object({
    id: z.uuid(),
    questKey: z.string(),
    playerQuestId: z.uuid(),
    cycleKey: z.string(),
    stepKey: z.string(),
    playerId: z.uuid(),
    externalUserId: z.string(),
    displayName: z.string().nullable(),
    evidenceType: z.enum(["TEXT", "URL"]).nullable(),
    evidence: z.string().nullable().meta({ description: "As the player has written it: show it as text" }),
    status: z.enum(SUBMISSION_STATUSES).meta({
      description: "WITHDRAWN: the quest was over before anybody decided; CONFIRMED: it needed no review",
    }),
    submittedAt: z.iso.datetime(),
    reviewedBy: z.string().nullable(),
    reviewedAt: z.iso.datetime().nullable(),
    note: z.string().nullable(),
  })
  .meta({ id: "QuestSubmission" });

/** Enough for the most codes of 200 characters, as JSON. */
const CODES_BODY_LIMIT = 4 * 1024 * 1024;

export const questSubmissionRoutes = [
  writeQuests.post("/players/{playerId}/quests/{questId}/steps/{stepKey}/submit", "submitPlayerQuestStep", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Submit a step of a player's quest",
    description:
      "Of kind MANUAL a confirmation, with `evidence` where the step wants some; of kind CODE a `code`, of " +
      "kind QUIZ `answers`. A quest with a start of AUTO is started by it. What is wrong is answered 200 " +
      "with `accepted` false and counts as an attempt; a player may try " +
      `${LIMITS.questAttempts.points} codes or answers a minute at one step. 409 QUEST_NOT_AVAILABLE where ` +
      "the quest is not in progress and does not start, STEP_LOCKED, STEP_PENDING_APPROVAL, STEP_DONE or " +
      "STEP_FAILED where the step is that.",
    body: SubmittedBody,
    response: SubmissionAnswer,
    prepare: (app, { projectId, params: { playerId, questId: questRef, stepKey: key }, body }) =>
      admitAttempt(app, { projectId, id: playerId }, { questRef, stepKey: key, body }),
    run: async (work, { projectId, params: { playerId, questId: questRef, stepKey: key }, body }) =>
      submitPlayerStep(work, { projectId, id: playerId }, { questRef, stepKey: key, body }),
  }),
  writeQuests.post("/players/{playerId}/quests/{questId}/steps/{stepKey}/review", "reviewPlayerQuestStep", {
    access: { scope: "quests:write", roles: DESIGNERS },
    summary: "Approve or reject a submission",
    description:
      "Once: the oldest of the step that waits, or the one that `submissionId` names. Approved, it counts; " +
      "rejected, the player may submit again. The player is told in their room, webhooks too. 409 " +
      "INVALID_STATE where nothing waits.",
    body: z
      .strictObject({
        decision: z.enum(DECISIONS),
        submissionId: z.string().max(64).optional(),
        note: z.string().min(1).max(500).optional().meta({ description: "For the player, who is told it" }),
      })
      .meta({ example: { decision: "APPROVE", note: "Well done" } }),
    response: PlayerQuestBody,
    run: async (work, { projectId, params: { playerId, questId: questRef, stepKey: key }, body }) =>
      reviewPlayerStep(work, { projectId, id: playerId }, { questRef, stepKey: key, ...body }),
  }),
  readQuests.get("/quest-reviews", "listQuestReviews", {
    summary: "List what players have submitted",
    description:
      "For steps of kind MANUAL, the oldest first. With `status` of PENDING it is the queue of reviews.",
    query: PageQuery.extend({
      ...sortedBy(SUBMISSION_ORDERS),
      status: z.enum(SUBMISSION_STATUSES).optional(),
      questId: z.string().min(1).max(64).optional().meta({ description: "The quest's UUID or key" }),
      stepKey: Key.optional(),
      playerId: ByPlayer,
    }),
    response: pageBody(SubmissionBody),
    run: async (work, { projectId, query }) => {
      const { submissions, ...total } = await listSubmissions(work, projectId, query);
      return pageReply(submissions, total, query);
    },
  }),
  manageQuests.post("/quests/{questId}/steps/{stepKey}/codes", "addQuestCodes", {
    summary: "Add codes to a step's pool",
    description:
      "Of a step of kind CODE with `perPlayerCodes`. Each serves one player once; only hashes are kept. " +
      "One that is or was in the pool is a duplicate.",
    body: z
      .strictObject({ codes: z.array(z.string().min(1).max(200)).min(1).max(STEP_CODES_MAX) })
      .meta({ example: { codes: ["TREE-7K2Q", "TREE-9XW4"] } }),
    bodyLimit: CODES_BODY_LIMIT,
    response: z.object({ added: z.int(), duplicates: z.int(), free: z.int() }),
    run: (work, { projectId, params: { questId: quest, stepKey: key }, body }) =>
      addStepCodes(work, projectId, { quest, stepKey: key, codes: body.codes }),
  }),
];
