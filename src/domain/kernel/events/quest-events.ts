import type { Cause, Json, PlayerRef } from "./events.ts";

/** A player's quest in one cycle. */
type Subject = PlayerRef & { playerQuestId: string; questKey: string; cycleKey: string };

/** A submission that somebody has decided about. */
type Decided = Subject & { questId: string; stepKey: string; submissionId: string; note: string | null };

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
  /** A submission for a step waits for somebody's decision. */
  "quest.approval_requested": Subject & {
    questId: string;
    stepKey: string;
    submissionId: string;
    evidenceType: "TEXT" | "URL" | null;
    evidence: string | null;
  };
  /** It counts; what it completes is told after it. */
  "quest.submission_approved": Decided;
  /** It does not count, and the player may submit again. */
  "quest.submission_rejected": Decided;
  "quest.failed": Subject & { cause: Cause };
  /**
   * A line of the player's stream: the quest as the API shows it, and the greatest change of the pass. Where
   * the percent of a quest in progress has changed, `progress` is what `quest.progress` says besides: that
   * event is sent from this row, and has none of its own.
   */
  "quest.updated": PlayerRef & {
    quest: Json;
    change: string;
    progress?: { previousPercent: number; justCompleted: string[] };
  };
};
