import { z } from "zod";
import {
  addStepCodes,
  admitAttempt,
  listSubmissions,
  reviewPlayerStep,
  STEP_CODES_MAX,
  SUBMISSION_ORDERS,
  SUBMISSION_STATUSES,
  SubmissionBody,
  submitPlayerStep,
  SubmittedBody,
} from "../../domain/economy/quests/submissions.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { DECISIONS } from "../../domain/evaluation/quests/submit.ts";
import { LIMITS } from "../../domain/accounts/rate-limits/limiter.ts";
import { ADMINS, DESIGNERS } from "../../domain/kernel/caller.ts";
import {
  abandonPlayerQuest,
  advancePlayerQuest,
  claimPlayerQuest,
  completePlayerQuest,
  failPlayerQuest,
  listPlayerQuests,
  readPlayerQuest,
  resetPlayerQuest,
  startPlayerQuest,
} from "../../domain/economy/quests/player-quests.ts";
import { QUESTS_MAX } from "../../domain/evaluation/quests/quest.ts";
import { QUEST_STATES } from "../../domain/evaluation/quests/row.ts";
import { getPlayer } from "../../domain/progression/players/players.ts";
import { ByPlayer, causeOf, firstOf, Flag, ofPathPlayer, paged, pageReply } from "./bodies.ts";
import { manageQuests, PlayerQuestBody, readQuests, writeQuests } from "./quests.ts";

const SubmissionAnswer = z
  .object({
    accepted: z.boolean().meta({ description: "Whether the code is right, or the quiz is passed" }),
    score: z.int().optional().meta({ description: "QUIZ: percent of right answers" }),
    attemptsLeft: z.int().optional().meta({ description: "CODE and QUIZ with `maxAttempts`" }),
    submissionId: z.uuid().optional().meta({ description: "MANUAL: what is stored, as in `/quest-reviews`" }),
    playerQuest: PlayerQuestBody,
  })
  .meta({ id: "QuestSubmissionAnswer" });

/** Enough for the most codes of 200 characters, as JSON. */
const CODES_BODY_LIMIT = 4 * 1024 * 1024;

const write = writeQuests.with({ response: PlayerQuestBody, sharing: ofPathPlayer });

/** Decisions about a player's quest, also from the console. */
const decide = write.with({
  access: { scope: "quests:write", roles: ADMINS },
  body: z
    .strictObject({ reason: z.string().min(1).max(200).optional() })
    .meta({ example: { reason: "Support request" } }),
});

const Value = z.number().min(0).max(9e9);
const ProgressBody = z
  .strictObject({ amount: Value.optional(), set: Value.optional() })
  .refine(({ amount, set }) => (amount === undefined) !== (set === undefined), "give amount or set")
  .transform(({ amount, set }) => (amount === undefined ? { set: set! } : { amount }))
  .meta({ id: "QuestStepProgress", example: { amount: 1 } });

const cycleKey = z.string().min(1).max(64).optional();
const cycle = cycleKey.meta({ deprecated: true, description: "The former name of `cycleKey`" });

export const playerQuestRoutes = [
  readQuests.get("/players/{playerId}/quests", "listPlayerQuests", {
    summary: "List a player's quests",
    description:
      "Each quest in its current cycle, also those that the player could start or that are LOCKED, unless " +
      "they are `hiddenUntilAvailable`. `claimable` has the completed cycles whose rewards wait, earlier " +
      "ones too.",
    query: z.object({
      state: z.enum(QUEST_STATES).optional(),
      category: z.string().min(1).max(64).optional(),
      claimable: Flag.meta({ description: "Whether rewards wait to be claimed, of whichever cycle" }),
      limit: firstOf(QUESTS_MAX),
    }),
    response: z.object({ data: z.array(PlayerQuestBody) }),
    run: async (work, { projectId, params, query: { limit, ...filter } }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      return { data: (await listPlayerQuests(work, player, filter)).slice(0, limit) };
    },
  }),
  readQuests.get("/players/{playerId}/quests/{questId}", "getPlayerQuest", {
    summary: "Get a player's quest",
    query: z.object({
      cycleKey: cycleKey.meta({
        description: "`current`, or the key of an earlier cycle whose rewards wait; default: current",
      }),
      cycle,
    }),
    response: PlayerQuestBody,
    run: async (work, { projectId, params, query }) => {
      const player = await getPlayer(work, projectId, params.playerId);
      const named = { questRef: params.questId, cycleKey: query.cycleKey ?? query.cycle };
      return readPlayerQuest(work, player, named);
    },
  }),
  write.post("/players/{playerId}/quests/{questId}/start", "startPlayerQuest", {
    summary: "Start a quest for a player",
    description:
      "409 QUEST_NOT_AVAILABLE if it is LOCKED, not offered, or its cycle is taken; LIMIT_REACHED if all " +
      "places are taken, INSUFFICIENT_FUNDS without its `start.cost`.",
    run: async (work, { projectId, params: { playerId, questId: questRef } }) =>
      startPlayerQuest(work, { projectId, id: playerId }, { questRef, startedBy: "API" }),
  }),
  write.post("/players/{playerId}/quests/{questId}/abandon", "abandonPlayerQuest", {
    summary: "Abandon a quest of a player",
    description: "It can be started again in the same cycle, but does not start by itself.",
    run: async (work, { projectId, params: { playerId, questId } }) =>
      abandonPlayerQuest(work, { projectId, id: playerId }, questId),
  }),
  write.post("/players/{playerId}/quests/{questId}/claim", "claimPlayerQuest", {
    summary: "Claim the rewards of a quest for a player",
    description:
      "Once for each cycle: 409 ALREADY_CLAIMED afterwards, CLAIM_EXPIRED after `claimWindowSeconds`. " +
      "Where rewards of several cycles wait, the oldest are claimed first.",
    body: z.strictObject({ cycleKey: cycleKey.meta({ example: "2026-01-10" }), cycle }).optional(),
    example: { cycleKey: "2026-01-10" },
    run: async (work, { projectId, params: { playerId, questId: questRef }, body }) =>
      claimPlayerQuest(
        work,
        { projectId, id: playerId },
        { questRef, cycleKey: body?.cycleKey ?? body?.cycle },
      ),
  }),
  write.post("/players/{playerId}/quests/{questId}/steps/{stepKey}/progress", "progressPlayerQuestStep", {
    summary: "Add to a step of a player's quest",
    description:
      "`amount` is added to what an active step has counted, or `set` replaces it; only of steps that " +
      "count or sum events since a start. 409 INVALID_STATE otherwise.",
    body: ProgressBody,
    run: async (work, { projectId, params: { playerId, questId: questRef, stepKey }, body }) =>
      advancePlayerQuest(work, { projectId, id: playerId }, { questRef, stepKey, ...body }),
  }),
  decide.post("/players/{playerId}/quests/{questId}/reset", "resetPlayerQuest", {
    summary: "Reset a quest of a player",
    description:
      "One that is IN_PROGRESS, FAILED or EXPIRED can then be started again in its cycle. Rewards that " +
      "were granted stay, and are not granted again.",
    run: async (work, { projectId, params: { playerId, questId } }) =>
      resetPlayerQuest(work, { projectId, id: playerId }, questId),
  }),
  decide.post("/players/{playerId}/quests/{questId}/complete", "completePlayerQuest", {
    summary: "Complete a quest for a player",
    description: "Whatever its steps have counted, with all rewards; it is started where it may be.",
    run: async (work, { projectId, params: { playerId, questId } }) =>
      completePlayerQuest(work, { projectId, id: playerId }, questId),
  }),
  decide.post("/players/{playerId}/quests/{questId}/fail", "failPlayerQuest", {
    summary: "Fail a quest of a player",
    run: async (work, { projectId, params: { playerId, questId: questRef }, body, caller }) => {
      const note = body.reason === undefined ? {} : { note: body.reason };
      const cause = { ...causeOf(caller), ...note };
      return failPlayerQuest(work, { projectId, id: playerId }, { questRef, cause });
    },
  }),
  write.post("/players/{playerId}/quests/{questId}/steps/{stepKey}/submit", "submitPlayerQuestStep", {
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
    ...paged(SubmissionBody, SUBMISSION_ORDERS, {
      status: z.enum(SUBMISSION_STATUSES).optional(),
      questId: z.string().min(1).max(64).optional().meta({ description: "The quest's UUID or key" }),
      stepKey: Key.optional(),
      playerId: ByPlayer,
    }),
    run: async (work, { projectId, query }) =>
      pageReply(await listSubmissions(work, projectId, query), "submissions", query),
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
