import { z } from "zod";
import { DRAFT_STATUSES } from "../../domain/economy/definitions/drafts.ts";
import { questShape } from "../../domain/evaluation/quests/quest.ts";
import { QUEST_STATES } from "../../domain/evaluation/quests/row.ts";
import { STEP_STATES } from "../../domain/evaluation/quests/show.ts";
import { DESIGNERS, EVERY_ROLE } from "../../domain/kernel/access.ts";

const common = { tag: "Quests", project: "caller" } as const;

/** Properties shared by operations on quests. */
export const readQuests = { ...common, access: { scope: "quests:read", roles: EVERY_ROLE } } as const;
export const manageQuests = { ...common, access: { scope: "quests:manage", roles: DESIGNERS } } as const;
/** Players' quests are changed by the game's server. */
export const writeQuests = { ...common, access: { scope: "quests:write" } } as const;

export const QuestParams = z.object({
  questId: z.string().max(64).meta({ description: "The quest's UUID or its key", example: "first-week" }),
});

/** A quest as it was published; stored ones may be of an earlier version of the service. */
const StoredQuest = z.record(z.string(), z.unknown());

export const QuestBody = questShape
  .extend({
    id: z.uuid(),
    status: z.enum(DRAFT_STATUSES).meta({
      description: "SCHEDULED and ENDED also follow from `availableFrom` and `availableUntil`",
    }),
    draftVersion: z.int().meta({ description: "Counts the edits of the draft" }),
    publishedVersion: z.int().nullable(),
    published: StoredQuest.nullable().meta({
      description: "What runs; the other fields are those of the draft",
    }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Quest" });

export const QuestVersionBody = z
  .object({
    version: z.int(),
    definition: StoredQuest,
    publishedAt: z.iso.datetime(),
    isPublished: z.boolean().meta({ description: "The one that runs" }),
  })
  .meta({ id: "QuestVersion" });

const PlayerQuestStepBody = z
  .object({
    stepKey: z.string(),
    kind: z.string(),
    state: z.enum(STEP_STATES),
    value: z.number(),
    target: z.number(),
    percent: z.int(),
    completedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: "PlayerQuestStep" });

export const PlayerQuestBody = z
  .object({
    id: z.uuid().nullable().meta({ description: "Null while the player has not started it in this cycle" }),
    questKey: z.string(),
    questId: z.uuid(),
    questVersion: z.int().meta({ description: "The version that the player does" }),
    name: z.string(),
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
    lockedBy: z
      .array(z.object({ path: z.string(), reason: z.string() }))
      .optional()
      .meta({ description: "LOCKED only: the conditions that do not hold" }),
  })
  .meta({
    id: "PlayerQuest",
    example: {
      id: "019ba9d2-4c00-7000-8000-000000000001",
      questKey: "first-week",
      questId: "019ba9d2-4c00-7000-8000-000000000002",
      questVersion: 1,
      name: "Your first week",
      cycleKey: "once",
      state: "IN_PROGRESS",
      percent: 33,
      steps: [
        {
          stepKey: "lessons",
          kind: "EVENT",
          state: "ACTIVE",
          value: 2,
          target: 3,
          percent: 66,
          completedAt: null,
        },
        {
          stepKey: "level",
          kind: "STATE",
          state: "LOCKED",
          value: 0,
          target: 1,
          percent: 0,
          completedAt: null,
        },
      ],
      startedAt: "2026-01-10T18:00:00.000Z",
      expiresAt: null,
      completedAt: null,
      claimedAt: null,
      resetsAt: null,
    },
  });
