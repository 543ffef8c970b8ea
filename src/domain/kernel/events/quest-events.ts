import type { Cause, Json, PlayerRef } from "./events.ts";

/** A player's quest in one cycle. */
type Subject = PlayerRef & { playerQuestId: string; questKey: string; cycleKey: string };

/** Events about players' quests, with the shape of `data`. Times are ISO 8601. */
export type QuestEvents = {
  "quest.started": Subject & {
    questId: string;
    questVersion: number;
    startedBy: "AUTO" | "PLAYER" | "API" | "RULE";
    expiresAt: string | null;
    startedAt: string;
  };
  "quest.progress": Subject & {
    percent: number;
    previousPercent: number;
    steps: { stepKey: string; value: number; target: number; done: boolean; justCompleted: boolean }[];
  };
  "quest.step_completed": Subject & { stepKey: string; rewards: Json | null };
  "quest.completed": Subject & {
    questId: string;
    questVersion: number;
    completions: number;
    durationSeconds: number;
    rewards: Json;
    claimRequired: boolean;
    claimUntil: string | null;
    completedAt: string;
  };
  "quest.claimed": Subject & { rewards: Json };
  "quest.expired": Subject & { percent: number };
  "quest.failed": Subject & { cause: Cause };
  /** A line of the player's stream: the quest as the API shows it, and the greatest change of the pass. */
  "quest.updated": PlayerRef & { quest: Json; change: string };
};
