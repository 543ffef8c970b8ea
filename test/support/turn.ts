import type { Json } from "../../src/domain/events.ts";
import type { Board } from "../../src/domain/leaderboards/scoring.ts";
import type { PlayerState, Turn } from "../../src/domain/progression/turn.ts";

/** An active CUSTOM board, BEST and DESC, unless told otherwise. */
export const aBoard = (board: Partial<Board> = {}): Board => ({
  id: "b1",
  key: "board",
  periodId: "w1",
  status: "ACTIVE",
  ties: "EARLIEST",
  sort: "DESC",
  operator: "BEST",
  scoreDecimals: 0,
  metric: { source: "CUSTOM" },
  ...board,
});

/** A player without XP, entries or history. */
export const aPlayer = (): PlayerState => ({
  id: "p1",
  projectId: "j1",
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
  createdAt: new Date(0),
  lastSeenAt: null,
  doc: {},
  entries: new Map(),
  dirty: { profile: false, doc: false, entries: new Set() },
});

export type TurnOptions = { player?: PlayerState; type?: string; at?: number; properties?: Json };

/** A turn at `at` ms over a player, whose effects go nowhere, and the warnings it collects. */
export const aTurn = (options: TurnOptions = {}) => {
  const { player = aPlayer(), type = "x", at = 1_000, properties = {} } = options;
  const warnings: string[] = [];
  const turn: Turn = {
    project: {
      projectId: "j1",
      configVersion: 1,
      timezone: "UTC",
      curve: { type: "LINEAR", params: {}, thresholds: [0] } as unknown as Turn["project"]["curve"],
      boards: [],
      boardsByKey: new Map(),
      allowLevelDown: false,
    },
    player,
    event: { id: "e1", type, at, properties },
    nowMs: 10_000,
    emit: () => undefined,
    ledger: () => undefined,
    warn: (message) => void warnings.push(message),
  };
  return { turn, player, warnings };
};
