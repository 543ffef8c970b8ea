import { z } from "zod";
import { getDefinition } from "../../domain/economy/definitions/definitions.ts";
import { questKind } from "../../domain/economy/quests/kind.ts";
import {
  listParticipants,
  PARTICIPANT_ORDERS,
  readQuestStats,
} from "../../domain/economy/quests/participants.ts";
import { STORED_STATES } from "../../domain/evaluation/quests/row.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";

import { ByPlayer, pageReply, sortedBy } from "./list-bodies.ts";
import { readQuests } from "./quest-bodies.ts";

const read = readQuests.with({});

const State = z.enum(STORED_STATES).meta({
  description: "RESET: it was put back, and may be started again in its cycle",
});
const cycleKey = z.string().min(1).max(64).optional().meta({ description: "Default: all cycles" });

const ParticipantBody = z
  .object({
    playerId: z.uuid(),
    externalUserId: z.string(),
    displayName: z.string().nullable(),
    id: z.uuid(),
    questVersion: z.int(),
    cycleKey: z.string(),
    state: State,
    percent: z.int(),
    stepsDone: z.array(z.string()).meta({ description: "Keys of the steps that are done" }),
    startedAt: z.iso.datetime(),
    completedAt: z.iso.datetime().nullable(),
    claimedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: "QuestParticipant" });

const StatsBody = z
  .object({
    questKey: z.string(),
    started: z.int().meta({ description: "Cycles of players that have begun" }),
    states: z.record(z.string(), z.int()).meta({ description: "How many are in each state" }),
    steps: z
      .array(
        z.object({
          stepKey: z.string(),
          name: z.string(),
          reached: z.int(),
          done: z.int(),
          waiting: z.int().meta({ description: "For a review" }),
          failed: z.int(),
        }),
      )
      .meta({ description: "How many came to each step, have done it, wait, or have failed it" }),
    averageSeconds: z.int().nullable().meta({ description: "From the start to the completion" }),
  })
  .meta({ id: "QuestStats" });

export const questInsightRoutes = [
  read.get("/quests/{questId}/stats", "getQuestStats", {
    summary: "Get statistics of a quest",
    description: "How far players have come: a funnel of the draft's steps.",
    query: z.object({ cycleKey }),
    response: StatsBody,
    run: async (work, { projectId, params, query }) => {
      const found = await getDefinition(work, projectId, questKind, params.questId);
      return readQuestStats(work, found, query);
    },
  }),
  read.get("/quests/{questId}/players", "listQuestPlayers", {
    summary: "List the players of a quest",
    description: "Those who have started it, one item for each cycle.",
    query: PageQuery.extend({
      ...sortedBy(PARTICIPANT_ORDERS),
      state: State.optional(),
      cycleKey,
      playerId: ByPlayer,
    }),
    response: pageBody(ParticipantBody),
    run: async (work, { projectId, params, query }) => {
      const found = await getDefinition(work, projectId, questKind, params.questId);
      const { participants, ...total } = await listParticipants(work, found, query);
      return pageReply(participants, total, query);
    },
  }),
];
