import { z } from "zod";
import { questShape } from "../../domain/evaluation/quests/quest.ts";
import { QUEST_STATES } from "../../domain/evaluation/quests/row.ts";
import { EVIDENCE_MODES, ShownQuestStep } from "../../domain/evaluation/quests/step.ts";
import { STEP_STATES } from "../../domain/evaluation/quests/compile.ts";
import { RewardBundle } from "../../domain/evaluation/rewards/bundle.ts";
import { DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { draftFields, VersionBody } from "./definition-bodies.ts";
import { group } from "../route.ts";

const common = group({ tag: "Quests", project: "caller" });

/** Properties shared by operations on quests. */
export const readQuests = common.with({ access: { scope: "quests:read", roles: EVERY_ROLE } });
export const manageQuests = common.with({ access: { scope: "quests:manage", roles: DESIGNERS } });
/** Players' quests are changed by the game's server. */
export const writeQuests = common.with({ access: { scope: "quests:write" } });

export const QuestBody = questShape
  .extend({
    steps: z.array(ShownQuestStep),
    ...draftFields("`availableFrom` and `availableUntil`"),
  })
  .meta({ id: "Quest" });

export const QuestVersionBody = VersionBody.meta({ id: "QuestVersion" });

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
