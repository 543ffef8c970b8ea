import { z } from "zod";
import { questShape } from "../../domain/evaluation/quests/quest.ts";
import { QUEST_STATES } from "../../domain/evaluation/quests/row.ts";
import { EVIDENCE_MODES, ShownQuestStep } from "../../domain/evaluation/quests/step.ts";
import { STEP_STATES } from "../../domain/evaluation/quests/compile.ts";
import { RewardBundle } from "../../domain/evaluation/rewards/bundle.ts";
import { actorOf, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { type AnyRoute, group } from "../route.ts";
import { getDefinition } from "../../domain/economy/definitions/definitions.ts";
import { questKind, questList } from "../../domain/economy/quests/kind.ts";
import {
  CycleState,
  listParticipants,
  PARTICIPANT_ORDERS,
  ParticipantBody,
  readQuestStats,
} from "../../domain/economy/quests/player-quests.ts";
import { publishDraft, showDraft } from "../../domain/economy/definitions/drafts.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { orderQuestBackfill } from "../../domain/rules/insight/recount-players.ts";
import { draftFields, draftRoutes } from "./definitions.ts";
import { ByPlayer, paged, pageReply } from "./bodies.ts";

const common = group({ tag: "Quests", project: "caller" });

/** Properties shared by operations on quests. */
export const readQuests = common.with({ access: { scope: "quests:read", roles: EVERY_ROLE } });
export const manageQuests = common.with({ access: { scope: "quests:manage", roles: DESIGNERS } });
/** Players' quests are changed by the game's server. */
export const writeQuests = common.with({ access: { scope: "quests:write" } });

const QuestBody = questShape
  .extend({
    steps: z.array(ShownQuestStep),
    ...draftFields("`availableFrom` and `availableUntil`"),
  })
  .meta({ id: "Quest" });

const PlayerQuestStepBody = z
  .object({
    stepKey: z.string(),
    name: z.string(),
    description: z.string().nullable(),
    kind: z.string(),
    optional: z.boolean(),
    evidence: z.enum(EVIDENCE_MODES).optional().meta({ description: "MANUAL only" }),
    state: z.enum(STEP_STATES).meta({
      description:
        "ACTIVE: it can be done, or begins a quest that is AVAILABLE; PENDING_APPROVAL: MANUAL, all that " +
        "is needed waits; FAILED: no attempts are left",
    }),
    value: z.number(),
    target: z.number(),
    percent: z.int(),
    completedAt: z.iso.datetime().nullable(),
    rewards: RewardBundle.nullable(),
    attemptsLeft: z.int().optional().meta({ description: "CODE and QUIZ with `maxAttempts` only" }),
    questions: z
      .array(z.object({ key: z.string(), prompt: z.string(), options: z.array(z.string()) }))
      .optional()
      .meta({ description: "QUIZ only, where one quest is read" }),
  })
  .meta({ id: "PlayerQuestStep" });

export const PlayerQuestBody = z
  .object({
    id: z.uuid().nullable().meta({ description: "Null while the player has not started it in this cycle" }),
    questKey: z.string(),
    questId: z.uuid(),
    questVersion: z.int().meta({ description: "The version that the player does" }),
    name: z.string().meta({ description: "In the player's language, where `translations` have it" }),
    description: z.string().nullable(),
    imageUrl: z.string().nullable(),
    category: z.string().nullable(),
    start: questShape.shape.start.unwrap(),
    claim: z.enum(["AUTO", "MANUAL"]),
    rewards: RewardBundle,
    cycleKey: z.string().meta({
      description: "`once`, a local period such as 2026-01-10, 2026-W02 or 2026-01, a time, or a number",
    }),
    state: z.enum(QUEST_STATES),
    percent: z.int(),
    steps: z.array(PlayerQuestStepBody),
    startedAt: z.iso.datetime().nullable(),
    expiresAt: z.iso.datetime().nullable().meta({
      description: "When it ends unless it is completed; of a completed one, until when it can be claimed",
    }),
    completedAt: z.iso.datetime().nullable(),
    claimedAt: z.iso.datetime().nullable(),
    resetsAt: z.iso.datetime().nullable().meta({ description: "When the next cycle begins" }),
    claimable: z
      .array(
        z.object({
          cycleKey: z.string(),
          completedAt: z.iso.datetime(),
          claimUntil: z.iso.datetime().nullable(),
          rewards: RewardBundle,
        }),
      )
      .meta({ description: "Completed cycles whose rewards wait to be claimed, oldest first" }),
    lockedBy: z
      .array(
        z.object({
          path: z.string(),
          reason: z.string(),
          names: z
            .array(z.object({ kind: z.string(), key: z.string() }))
            .meta({ description: "The quests, adventures, badges, segments and so on that it is about" }),
        }),
      )
      .optional()
      .meta({ description: "LOCKED only: what must change before it can be started" }),
  })
  .meta({
    id: "PlayerQuest",
    example: {
      id: "019ba9d2-4c00-7000-8000-000000000001",
      questKey: "first-week",
      questId: "019ba9d2-4c00-7000-8000-000000000002",
      questVersion: 1,
      name: "Your first week",
      description: null,
      imageUrl: null,
      category: null,
      start: { mode: "AUTO" },
      claim: "AUTO",
      rewards: { xp: 100 },
      cycleKey: "once",
      state: "IN_PROGRESS",
      percent: 33,
      steps: [
        {
          stepKey: "lessons",
          name: "Finish three lessons",
          description: null,
          kind: "EVENT",
          optional: false,
          state: "ACTIVE",
          value: 2,
          target: 3,
          percent: 66,
          completedAt: null,
          rewards: { xp: 10 },
        },
        {
          stepKey: "level",
          name: "Reach level 2",
          description: null,
          kind: "STATE",
          optional: false,
          state: "LOCKED",
          value: 0,
          target: 1,
          percent: 0,
          completedAt: null,
          rewards: null,
        },
      ],
      startedAt: "2026-01-10T18:00:00.000Z",
      expiresAt: null,
      completedAt: null,
      claimedAt: null,
      resetsAt: null,
      claimable: [],
    },
  });

const cycleKey = z.string().min(1).max(64).optional().meta({ description: "Default: all cycles" });

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

const PublishBody = z
  .strictObject({
    backfill: z
      .boolean()
      .optional()
      .meta({
        description:
          "Counts what players did before: a job makes the counters anew that steps of LIFETIME and " +
          "conditions read, and lets players begin and complete the quest by them. Until it is done they " +
          "know of new events only",
      }),
  })
  .meta({ example: { backfill: true } });

const { editing, running } = draftRoutes({
  kind: questKind,
  one: "a quest",
  read: readQuests,
  write: manageQuests,
  body: QuestBody,
  list: questList,
  filters: {
    category: z.string().min(1).max(64).optional(),
    tag: z.string().min(1).max(64).optional(),
    adventureKey: Key.optional().meta({ description: "Items of this adventure, as it is published" }),
  },
  moves: {
    pause: "Nobody starts it or gets further; time limits go on.",
    resume: "It goes on where it was.",
    end: "What players have in progress expires, unless `finishAfterEnd` lets them finish.",
  },
  copy: { key: "second-week", name: "Your second week" },
});

export const questRoutes: readonly AnyRoute[] = [
  ...editing,
  manageQuests.post("/quests/{questId}/publish", "publishQuest", {
    summary: "Publish a quest's draft",
    description:
      "As the next version, effective from the next events on. Names, rewards and prerequisites are " +
      "checked: what is unknown, waits for itself or cannot end is refused. `onVersionChange` decides " +
      "about players in progress; who keeps a version can finish it while it is one of the last six.",
    body: PublishBody.optional(),
    response: QuestBody.extend({
      backfillJobId: z.uuid().nullable().meta({ description: "See GET /jobs/{jobId}" }),
    }),
    run: async (work, { caller, projectId, params, body }) => {
      const found = await publishDraft(work, questKind, { projectId, ref: params.questId });
      const order = { projectId, quest: found, createdBy: actorOf(caller) };
      const backfillJobId = body?.backfill === true ? await orderQuestBackfill(work, order) : null;
      return { ...showDraft(found, work), backfillJobId } as never;
    },
  }),
  ...running,
  readQuests.get("/quests/{questId}/stats", "getQuestStats", {
    summary: "Get statistics of a quest",
    description: "How far players have come: a funnel of the draft's steps.",
    query: z.object({ cycleKey }),
    response: StatsBody,
    run: async (work, { projectId, params, query }) => {
      const found = await getDefinition(work, projectId, questKind, params.questId);
      return readQuestStats(work, found, query);
    },
  }),
  readQuests.get("/quests/{questId}/players", "listQuestPlayers", {
    summary: "List the players of a quest",
    description: "Those who have started it, one item for each cycle.",
    ...paged(ParticipantBody, PARTICIPANT_ORDERS, {
      state: CycleState.optional(),
      cycleKey,
      playerId: ByPlayer,
    }),
    run: async (work, { projectId, params, query }) => {
      const found = await getDefinition(work, projectId, questKind, params.questId);
      return pageReply(await listParticipants(work, found, query), "participants", query);
    },
  }),
];
