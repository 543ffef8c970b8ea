import { z } from "zod";
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

import { ADMINS } from "../../domain/kernel/caller.ts";
import { firstOf, Flag } from "./list-bodies.ts";
import { causeOf } from "./player-params.ts";
import { PlayerQuestBody, readQuests, writeQuests } from "./quest-bodies.ts";

const write = writeQuests.with({ response: PlayerQuestBody });

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
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Start a quest for a player",
    description:
      "409 QUEST_NOT_AVAILABLE if it is LOCKED, not offered, or its cycle is taken; LIMIT_REACHED if all " +
      "places are taken, INSUFFICIENT_FUNDS without its `start.cost`.",
    run: async (work, { projectId, params: { playerId, questId: questRef } }) =>
      startPlayerQuest(work, { projectId, id: playerId }, { questRef, startedBy: "API" }),
  }),
  write.post("/players/{playerId}/quests/{questId}/abandon", "abandonPlayerQuest", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Abandon a quest of a player",
    description: "It can be started again in the same cycle, but does not start by itself.",
    run: async (work, { projectId, params: { playerId, questId } }) =>
      abandonPlayerQuest(work, { projectId, id: playerId }, questId),
  }),
  write.post("/players/{playerId}/quests/{questId}/claim", "claimPlayerQuest", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
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
  writeQuests.post(
    "/players/{playerId}/quests/{questId}/steps/{stepKey}/progress",
    "progressPlayerQuestStep",
    {
      sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
      summary: "Add to a step of a player's quest",
      description:
        "`amount` is added to what an active step has counted, or `set` replaces it; only of steps that " +
        "count or sum events since a start. 409 INVALID_STATE otherwise.",
      body: ProgressBody,
      response: PlayerQuestBody,
      run: async (work, { projectId, params: { playerId, questId: questRef, stepKey }, body }) =>
        advancePlayerQuest(work, { projectId, id: playerId }, { questRef, stepKey, ...body }),
    },
  ),
  decide.post("/players/{playerId}/quests/{questId}/reset", "resetPlayerQuest", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Reset a quest of a player",
    description:
      "One that is IN_PROGRESS, FAILED or EXPIRED can then be started again in its cycle. Rewards that " +
      "were granted stay, and are not granted again.",
    run: async (work, { projectId, params: { playerId, questId } }) =>
      resetPlayerQuest(work, { projectId, id: playerId }, questId),
  }),
  decide.post("/players/{playerId}/quests/{questId}/complete", "completePlayerQuest", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Complete a quest for a player",
    description: "Whatever its steps have counted, with all rewards; it is started where it may be.",
    run: async (work, { projectId, params: { playerId, questId } }) =>
      completePlayerQuest(work, { projectId, id: playerId }, questId),
  }),
  decide.post("/players/{playerId}/quests/{questId}/fail", "failPlayerQuest", {
    sharing: ({ params }) => ({ player: params.playerId, isPlain: true }),
    summary: "Fail a quest of a player",
    run: async (work, { projectId, params: { playerId, questId: questRef }, body, caller }) => {
      const note = body.reason === undefined ? {} : { note: body.reason };
      const cause = { ...causeOf(caller), ...note };
      return failPlayerQuest(work, { projectId, id: playerId }, { questRef, cause });
    },
  }),
];
