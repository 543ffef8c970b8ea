import { z } from "zod";
import type { EventType } from "../../../kernel/events/domain-events.ts";
import type { EntriesOf } from "./entry.ts";
import { CauseShape, Data, Id, PLAYER, Text, Time } from "./shapes.ts";

type QuestType = Exclude<Extract<EventType, `quest.${string}`>, "quest.updated">;

const subject = { ...PLAYER, playerQuestId: Id, questKey: Text, cycleKey: Text };
const decided = {
  ...subject,
  questId: Id,
  stepKey: Text,
  submissionId: Id.meta({ description: "As in `GET /quest-reviews`" }),
  note: Text.nullable().meta({ description: "What the reviewer has written for the player" }),
};
const percent = z.int().meta({ description: "0 to 100" });

export const questTypes: EntriesOf<QuestType> = {
  "quest.started": {
    occurs: "a player started a quest, or it started by itself",
    data: z.object({
      ...subject,
      questId: Id,
      questVersion: z.int(),
      startedBy: z.enum(["AUTO", "PLAYER", "API", "RULE"]),
      expiresAt: Time.nullable(),
      startedAt: Time,
    }),
  },
  "quest.progress": {
    occurs: "the percent of a quest changed; once for each quest and event",
    data: z.object({
      ...subject,
      percent,
      previousPercent: percent,
      steps: z.array(
        z.object({
          stepKey: Text,
          value: z.number(),
          target: z.number(),
          done: z.boolean(),
          justCompleted: z.boolean(),
        }),
      ),
    }),
  },
  "quest.step_completed": {
    occurs: "a step of a quest was done",
    data: z.object({ ...subject, stepKey: Text, rewards: Data.nullable() }),
  },
  "quest.completed": {
    occurs: "a quest was completed",
    data: z.object({
      ...subject,
      questId: Id,
      questVersion: z.int(),
      completions: z.int().meta({ description: "Of the player, this one included" }),
      durationSeconds: z.int(),
      rewards: Data,
      claimRequired: z.boolean(),
      claimUntil: Time.nullable(),
      completedAt: Time,
    }),
  },
  "quest.claimed": {
    occurs: "the rewards of a quest were granted",
    data: z.object({ ...subject, rewards: Data }),
  },
  "quest.expired": {
    occurs: "the time of a quest, or to claim its rewards, was over",
    data: z.object({ ...subject, percent }),
  },
  "quest.approval_requested": {
    occurs: "a player submitted a step that somebody has to approve",
    data: z.object({
      ...subject,
      questId: Id,
      stepKey: Text,
      submissionId: Id.meta({ description: "As in `GET /quest-reviews`" }),
      evidenceType: z.enum(["TEXT", "URL"]).nullable(),
      evidence: Text.nullable().meta({ description: "What the player has written: show it as text" }),
    }),
  },
  "quest.submission_approved": {
    occurs: "somebody approved what a player had submitted; the player is told too",
    data: z.object(decided),
  },
  "quest.submission_rejected": {
    occurs: "somebody rejected what a player had submitted; the player is told too, and may submit again",
    data: z.object(decided),
  },
  "quest.failed": {
    occurs: "a quest failed",
    data: z.object({ ...subject, cause: CauseShape }),
  },
};
