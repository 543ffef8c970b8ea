import { randomUUID } from "node:crypto";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import type { Board } from "../../../src/domain/evaluation/boards/board.ts";
import type { LedgerRow } from "../../../src/domain/evaluation/effects.ts";
import type { PlayerState } from "../../../src/domain/evaluation/player-state.ts";
import type { Turn } from "../../../src/domain/evaluation/turn.ts";
import {
  compileRules,
  type PublishedRule,
  type RuleSet,
} from "../../../src/domain/evaluation/running/compile.ts";
import { RuleDocument } from "../../../src/domain/evaluation/language/document.ts";
import { aPass, aPlan, aPlayerState } from "./plan.ts";

export const NOW = Date.parse("2026-06-15T12:00:00Z");

export const aPlayer = aPlayerState;

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
  const plan = aPlan({ timezone, boards });
  const { turn, effects, warnings } = aPass({ plan, player, event: { type, at, properties }, nowMs });
  return {
    ...turn,
    get emitted() {
      return effects.outbox.map(({ type: name, data }) => ({ type: name, data: data as Json }));
    },
    rows: effects.ledger,
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
