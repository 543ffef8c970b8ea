import type { Cause, EventData, EventType, Json } from "../events.ts";
import type { Board } from "../leaderboards/scoring.ts";
import type { LevelCurve } from "./levels.ts";

/** What evaluation knows of a player: loaded once for a batch, changed in memory, saved once. */
export type PlayerState = {
  id: string;
  projectId: string;
  externalUserId: string;
  displayName: string | null;
  status: "ACTIVE" | "SUSPENDED" | "BANNED" | "MERGED" | "ERASED";
  xp: number;
  level: number;
  /** Sequence of the player stream: +1 for each outbox row of the player. */
  seq: number;
  ledgerSeq: number;
  timezone: string | null;
  locale: string | null;
  country: string | null;
  attributes: Json;
  tags: string[];
  createdAt: Date;
  lastSeenAt: Date | null;
  /** Firing times by rule id; see rules/limits.ts. Loaded only when a rule of the batch needs it. */
  doc: PlayerDoc;
  /** Entries of open boards by period id. */
  entries: Map<string, EntryState>;
  /** What has to be written back. */
  dirty: { profile: boolean; doc: boolean; entries: Set<string> };
};

/** The jsonb of player_states. `l`: limit state by rule id. */
export type PlayerDoc = { l?: Record<string, unknown> };

export type EntryState = { rankScore: number; rankTie: number; latestUs: number; version: number };

/** The tracked event as rules see it; `at` is its timestamp in ms, never later than now. */
export type RuleEvent = { id: string; type: string; at: number; properties: Json };

/** A line of the ledger before it is written. */
export type LedgerRow = {
  id: string;
  projectId: string;
  playerId: string;
  seq: number;
  asset: "XP";
  amount: number;
  balanceAfter: number;
  reason: string;
  key: string;
  cause: Cause;
};

/** One event's pass over one player. Actions change `player` only through the functions beside this file. */
export type Turn = {
  project: ProjectSetup;
  player: PlayerState;
  event: RuleEvent;
  nowMs: number;
  /** Effects so far in order; each becomes one outbox row. */
  emit<T extends EventType>(type: T, data: EventData<T>): void;
  ledger(row: LedgerRow): void;
  /** Notes for traces, such as a division by zero. */
  warn(message: string): void;
};

/** Everything of a project that evaluation needs, read once per config version. */
export type ProjectSetup = {
  projectId: string;
  configVersion: number;
  timezone: string;
  curve: LevelCurve;
  boards: readonly Board[];
  boardsByKey: ReadonlyMap<string, Board>;
  allowLevelDown: boolean;
};
