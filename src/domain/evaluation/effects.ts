import type { Cause, Json } from "../kernel/events/events.ts";
import type { OutboxRow } from "../kernel/outbox.ts";

/** A ledger entry to be written; `hash` chains it to the player's previous one. */
export type LedgerRow = {
  id: string;
  projectId: string;
  playerId: string;
  seq: number;
  asset: "XP" | "CURRENCY" | "LIVES";
  currencyKey: string | null;
  amount: number;
  balanceAfter: number;
  reason: string;
  key: string;
  txId: string | null;
  reverses: string | null;
  cause: Cause;
  eventId: string | null;
  hash: string;
};

export type ExecutionRow = {
  projectId: string;
  ruleId: string;
  id: string;
  ruleVersion: number;
  playerId: string;
  eventId: string;
  depth: number;
  mode: "LIVE" | "SHADOW" | "HOLDOUT";
  /** The simulated effects. For LIVE, whose effects are in the outbox, the submitted scores, or null. */
  effects: unknown;
};

/** An event that the service sends to itself, for another player or a later time. */
export type SpawnedEvent = {
  id: string;
  projectId: string;
  externalUserId: string;
  eventType: `system.${string}`;
  properties: Json;
  atMs: number;
  /** Earliest time; null for at once. */
  dueMs: number | null;
};

export type BadgeAwardRow = {
  id: string;
  projectId: string;
  playerId: string;
  badgeKey: string;
  tier: number;
  action: "AWARDED" | "REVOKED";
  key: string;
  cause: Cause;
  eventId: string | null;
  /** For a limited edition: the serial number of the award. */
  serialNo?: number | null;
};

export type StreakRunRow = {
  id: string;
  projectId: string;
  playerId: string;
  streakKey: string;
  startedOn: string;
  endedOn: string;
  length: number;
  frozenPeriods: readonly string[];
  endedBy: "MISSED" | "BREAK_EVENT" | "RESET" | "REPAIRED" | "MERGED";
};

export type RewardGrantRow = {
  id: string;
  projectId: string;
  playerId: string;
  rewardKey: string;
  quantity: number;
  status: "PENDING" | "GRANTED";
  key: string;
  contents: Json;
  /** For a prize whose code is assigned at once. */
  code?: string | null;
  cause: Cause;
  eventId: string | null;
  expiresMs: number | null;
};

export type InboxRow = {
  id: string;
  projectId: string;
  playerId: string;
  type: string;
  title: string;
  body: string | null;
  data: Json;
  /** A reward that waits to be claimed, which the message is about. */
  rewardGrantId: string | null;
  expiresMs: number | null;
};

/** A score that a rule has submitted: the list, the score as it counts, and when, in microseconds. */
export type RecordedScore = [listId: string, rankScore: number, atUs: number];

/** A submitted score that waits for a review. */
export type ScoreReviewRow = {
  id: string;
  projectId: string;
  leaderboardId: string;
  periodId: string;
  playerId: string;
  score: number;
  violation: string;
  meta: Json | null;
  atMs: number;
};

/** What a player has submitted for a step of a quest. */
export type QuestSubmissionRow = {
  id: string;
  projectId: string;
  playerId: string;
  questKey: string;
  playerQuestId: string;
  cycleKey: string;
  stepKey: string;
  evidenceType: "TEXT" | "URL" | null;
  evidence: string | null;
  /** CONFIRMED: it counted without a review. */
  status: "PENDING" | "CONFIRMED";
  atMs: number;
};

/** What becomes of a submission that waits. WITHDRAWN: the quest was over before anybody decided. */
export type SubmissionDecisionRow = {
  id: string;
  projectId: string;
  status: "APPROVED" | "REJECTED" | "WITHDRAWN";
  by: string | null;
  note: string | null;
  atMs: number;
};

/** When a player was in a segment who has left it: from entering on, until leaving. */
export type SegmentSpellRow = {
  id: string;
  projectId: string;
  playerId: string;
  segmentKey: string;
  enteredMs: number;
  leftMs: number;
};

export type TraceRow = { projectId: string; eventId: string; trace: unknown; expiresMs: number };

/** Rows that a batch writes besides the players: append-only lists, which are truncated to undo. */
export const noEffects = () => ({
  outbox: [] as OutboxRow[],
  ledger: [] as LedgerRow[],
  executions: [] as ExecutionRow[],
  spawned: [] as SpawnedEvent[],
  badgeAwards: [] as BadgeAwardRow[],
  streakRuns: [] as StreakRunRow[],
  segmentSpells: [] as SegmentSpellRow[],
  rewardGrants: [] as RewardGrantRow[],
  inbox: [] as InboxRow[],
  scoreReviews: [] as ScoreReviewRow[],
  questSubmissions: [] as QuestSubmissionRow[],
  submissionDecisions: [] as SubmissionDecisionRow[],
  /** Scores that rules have submitted; saved with their firings. */
  scores: [] as RecordedScore[],
  traces: [] as TraceRow[],
});
export type Effects = ReturnType<typeof noEffects>;
