import { randomUUID } from "node:crypto";
import type { Json } from "../../src/domain/events.ts";
import type { Board } from "../../src/domain/leaderboards/scoring.ts";
import { DEFAULT_CURVE } from "../../src/domain/progression/levels.ts";
import type { LedgerRow, PlayerState, RuleEvent, Turn } from "../../src/domain/progression/turn.ts";
import { compileRules, type PublishedRule, type RuleSet } from "../../src/domain/rules/compile.ts";
import { RuleDocument } from "../../src/domain/rules/document.ts";

export const NOW = Date.parse("2026-06-15T12:00:00Z");

export const aPlayer = (more: Partial<PlayerState> = {}): PlayerState => ({
  id: randomUUID(),
  projectId: "11111111-1111-1111-1111-111111111111",
  externalUserId: "u1",
  displayName: null,
  status: "ACTIVE",
  xp: 0,
  level: 1,
  seq: 0,
  ledgerSeq: 0,
  timezone: null,
  locale: null,
  country: null,
  attributes: {},
  tags: [],
  createdAt: new Date("2026-01-01T00:00:00Z"),
  lastSeenAt: null,
  doc: {},
  entries: new Map(),
  dirty: { profile: false, doc: false, entries: new Set() },
  ...more,
});

export type RecordedTurn = Turn & {
  emitted: { type: string; data: Json }[];
  rows: LedgerRow[];
  warnings: string[];
};

export type TurnOptions = {
  player?: PlayerState;
  type?: string;
  properties?: Json;
  at?: number;
  nowMs?: number;
  timezone?: string;
  boards?: readonly Board[];
};

/** A pass over one player that remembers what happened in it. */
export const aTurn = ({ player = aPlayer(), boards = [], ...options }: TurnOptions = {}): RecordedTurn => {
  const { type = "tried", properties = {}, at = NOW, nowMs = NOW, timezone = "UTC" } = options;
  const event: RuleEvent = { id: randomUUID(), type, at, properties };
  const emitted: RecordedTurn["emitted"] = [];
  const rows: LedgerRow[] = [];
  const warnings: string[] = [];
  return {
    project: {
      projectId: player.projectId,
      configVersion: 1,
      timezone,
      curve: DEFAULT_CURVE,
      boards,
      boardsByKey: new Map(boards.map((board) => [board.key, board])),
      allowLevelDown: false,
    },
    player,
    event,
    nowMs,
    emit: (name, data) => {
      player.seq++;
      emitted.push({ type: name, data });
    },
    ledger: (row) => void rows.push(row),
    warn: (message) => void warnings.push(message),
    emitted,
    rows,
    warnings,
  };
};

/** A whole rule from the part that a test is about. */
export const aDocument = (more: Json = {}): RuleDocument =>
  RuleDocument.parse({
    key: "a-rule",
    name: "A rule",
    triggers: [{ kind: "EVENT", eventTypes: ["tried"] }],
    actions: [{ type: "grant_xp", amount: 1 }],
    ...more,
  });

let made = 0;

export const aRule = (more: Json = {}): PublishedRule => {
  const definition = aDocument({ key: `rule-${++made}`, ...more });
  return { id: randomUUID(), key: definition.key, version: 1, createdAt: new Date(NOW + made), definition };
};

export const ruleSetOf = (...documents: Json[]): RuleSet => compileRules(documents.map(aRule));

export const grantedXp = ({ rows }: RecordedTurn): number =>
  rows.reduce((sum, { amount }) => sum + amount, 0);
