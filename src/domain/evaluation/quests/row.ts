/** States of a quest or an adventure that a player has begun. */
export const BEGUN_STATES = ["IN_PROGRESS", "COMPLETED", "CLAIMED", "EXPIRED"] as const;

/** States of a player's quest that are stored. RESET: it was put back, and may be started again. */
export const STORED_STATES = [...BEGUN_STATES, "FAILED", "ABANDONED", "RESET"] as const;
export type StoredState = (typeof STORED_STATES)[number];

/** States as the API shows them: LOCKED and AVAILABLE are never stored. */
export const QUEST_STATES = ["LOCKED", "AVAILABLE", ...BEGUN_STATES, "FAILED", "ABANDONED"] as const;
export type PlayerQuestState = (typeof QUEST_STATES)[number];

export const STARTED_BY = ["AUTO", "PLAYER", "API", "RULE"] as const;
export type StartedBy = (typeof STARTED_BY)[number];

/** Progress of a step. Times are in ms. */
export type StepProgress = {
  /** Since when it is active; absent while it waits for others. */
  startMs?: number;
  doneMs?: number;
  /**
   * The value when the row was last written; of EVENT steps that still count, the document has the current
   * one.
   */
  value?: number;
  /** CODE and QUIZ: how often the player has tried. */
  attempts?: number;
  /** CODE and QUIZ: when the last attempt was used up without success. */
  failedMs?: number;
  /** MANUAL: ids of the submissions that wait for a review, oldest first. */
  pending?: readonly string[];
};

/** One cycle of a player's quest. Every value is replaced, never edited. */
export type QuestRow = {
  id: string;
  /** The version of the quest that the player does. */
  version: number;
  cycleKey: string;
  state: StoredState;
  /** 0 to 100; 100 only when it is completed. */
  percent: number;
  startedMs: number;
  startedBy: StartedBy;
  /** The end of the time limit and of the cycle, whichever is first; null for none. */
  expiresMs: number | null;
  completedMs: number | null;
  claimedMs: number | null;
  /** Until when rewards may be claimed; null for ever. */
  claimUntilMs: number | null;
  /** Number of completions of the quest so far, and the time of the last one. */
  completions: number;
  lastCompletedMs: number | null;
  steps: Readonly<Record<string, StepProgress>>;
  /** Keys of the steps whose rewards were granted in this cycle. */
  rewarded: readonly string[];
  /** When the quest ends, of a row in which something waits for a review: a sweep looks at it then. */
  endsMs?: number;
  /** When a sweep looks at it, as it was stored; null for never. */
  dueMs?: number | null;
  /** The tracked event that it began with. */
  eventId?: string;
  /** Whether its entry cost was paid. */
  isPaid?: true;
  /** How often reverts have taken back rewards of it: these can be given again, under another key. */
  again?: number;
  /** Whether it must be saved. PROGRESS: it is stored, and has only got further since it was read. */
  isChanged?: true | "PROGRESS";
};

/** Returns the keys of the steps of a row that are done. */
export const doneIn = ({ steps }: Pick<QuestRow, "steps">): string[] =>
  Object.keys(steps).filter((key) => steps[key]!.doneMs !== undefined);

/** Returns when a row expires unless something happens before, in ms; null for never. */
export const dueOf = ({ state, expiresMs, endsMs, claimUntilMs }: QuestRow): number | null => {
  if (state === "IN_PROGRESS") {
    const dueMs = Math.min(expiresMs ?? Infinity, endsMs ?? Infinity);
    return Number.isFinite(dueMs) ? dueMs : null;
  }
  return state === "COMPLETED" ? claimUntilMs : null;
};
