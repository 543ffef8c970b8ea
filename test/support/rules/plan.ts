import { randomUUID } from "node:crypto";
import { economyPieces } from "../../../src/domain/progression/load-plan.ts";
import { DEFAULT_CURVE } from "../../../src/domain/evaluation/xp/levels.ts";
import { emptyHoldings } from "../../../src/domain/progression/load.ts";
import { openTurn } from "../../../src/domain/evaluation/evaluate.ts";
import type { PlayerState } from "../../../src/domain/evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../../../src/domain/evaluation/project-plan.ts";
import type { RuleEvent } from "../../../src/domain/evaluation/rule-event.ts";
import { createSharedCounters } from "../../../src/domain/evaluation/shared-counters.ts";
import { noEffects, type Effects } from "../../../src/domain/evaluation/effects.ts";
import type { Stored } from "../../../src/domain/evaluation/live.ts";
import { DEFINITION_KINDS } from "../../../src/domain/registries/definition-kinds.ts";
import { boardPieces } from "../../../src/domain/evaluation/boards/holdings.ts";
import { atOnce } from "../../../src/domain/kernel/slices.ts";
import {
  DEFAULT_SETTINGS,
  type ProjectSettings,
  settingsFrom,
} from "../../../src/domain/evaluation/project-settings.ts";
import { compileRules } from "../../../src/domain/evaluation/running/compile.ts";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { unique } from "../operations/bodies.ts";

export const PROJECT = "11111111-1111-1111-1111-111111111111";

const TENANT = "22222222-2222-2222-2222-222222222222";

export type PlanParts = Omit<Partial<ProjectPlan>, "settings"> & {
  settings?: Partial<ProjectSettings>;
  /** Documents by kind, `{ currency: [{ key: "coins", name: "Coins" }] }`, as designers write them. */
  define?: Record<string, readonly Json[]>;
};

/** Reads definitions as the API would. */
export const aDefinition = (kind: string, document: Json): Stored => {
  const { schema } = DEFINITION_KINDS.find((one) => one.kind === kind)!;
  const definition = schema.parse(document);
  return { id: randomUUID(), projectId: PROJECT, definition, version: 1, status: "ACTIVE" };
};

/** A project's plan: no rules, boards or definitions unless given. */
export const aPlan = ({ settings, define = {}, ...more }: PlanParts = {}): ProjectPlan => {
  const rules = more.rules ?? compileRules([]);
  const boards = more.boards ?? [];
  const definitions = new Map(
    Object.entries(define).map(([kind, documents]) => [kind, documents.map((one) => aDefinition(kind, one))]),
  );
  return {
    ...atOnce(economyPieces(definitions, rules, settingsFrom(settings ?? {}))),
    projectId: PROJECT,
    tenantId: TENANT,
    configVersion: 1,
    bytes: 0,
    timezone: "UTC",
    isSandbox: false,
    clockAheadMs: 0,
    settings: { ...DEFAULT_SETTINGS, ...settings },
    curve: DEFAULT_CURVE,
    boards,
    boardsByKey: new Map(boards.map((board) => [board.key, board])),
    boardIndex: atOnce(boardPieces(boards)),
    rules,
    ...more,
  };
};

/** A player without XP, holdings or history. */
export const aPlayerState = (more: Partial<PlayerState> = {}): PlayerState => ({
  id: randomUUID(),
  projectId: PROJECT,
  externalUserId: "u1",
  displayName: null,
  status: "ACTIVE",
  xp: 0,
  level: 1,
  seq: 0,
  ledgerSeq: 0,
  ledgerHash: null,
  lives: { count: null, anchorMs: null, unlimitedUntilMs: null },
  timezone: null,
  zoneChangedMs: null,
  locale: null,
  country: null,
  attributes: {},
  tags: [],
  createdAt: new Date("2026-01-01T00:00:00Z"),
  firstSeenAt: null,
  lastSeenAt: null,
  activeMonth: null,
  ...emptyHoldings(),
  ...more,
});

type PassParts = {
  plan?: ProjectPlan;
  player?: PlayerState;
  event?: Partial<RuleEvent>;
  nowMs?: number;
  effects?: Effects;
};

/** The pass of a tracked event over a player; `effects` and `warnings` fill as it goes. */
export const aPass = ({ plan = aPlan(), player = aPlayerState(), ...more }: PassParts = {}) => {
  const { event = {}, nowMs = Date.parse("2026-06-15T12:00:00Z"), effects = noEffects() } = more;
  const full = { id: randomUUID(), type: "tried", at: nowMs, properties: {}, depth: 0, ...event };
  const shared = createSharedCounters("FROM_ZERO");
  const warnings: string[] = [];
  const turn: PlanTurn = {
    ...openTurn({ plan, player, event: full, nowMs, effects, shared, isTracked: true }),
    warn: (message) => void warnings.push(message),
  };
  return { turn, plan, player, effects, warnings };
};

/** The least that makes a definition, without its key: by kind. */
const LEAST: Record<string, Json> = {
  currency: {},
  segment: { kind: "STATIC" },
  reward: { kind: "PRIZE", fulfilment: "EXTERNAL" },
  badge: {},
  streak: { qualify: { parts: [{ metric: { eventTypes: ["done"], aggregate: "count" } }] } },
  quest: {
    steps: [
      {
        key: "act",
        name: "Act",
        kind: "EVENT",
        metric: { eventTypes: ["done"], aggregate: "count" },
        target: 1,
      },
    ],
  },
  adventure: {
    name: "An adventure",
    startsAt: "2026-01-01T00:00:00Z",
    endsAt: "2126-01-01T00:00:00Z",
    items: [{ questKey: "act", order: 1 }],
  },
  level: {},
  boost: { applies: "xp", factor: 2, startsAt: "2026-01-01T00:00:00Z", expiresAt: "2126-01-01T00:00:00Z" },
};

/** An optional field of each kind, with two values that differ from its default, if it has one. */
export const OPTIONAL_FIELD: Record<string, [field: string, value: unknown, other: unknown]> = {
  currency: ["maxBalance", 500, 600],
  segment: ["description", "Text", "Another"],
  reward: ["perPlayerLimit", 1, 2],
  badge: ["category", "start", "end"],
  streak: ["graceSeconds", 60, 120],
  quest: ["category", "start", "end"],
  adventure: ["season", "start", "end"],
  level: ["iconUrl", "https://example.com/a.png", "https://example.com/b.png"],
  boost: ["segmentKey", "players", "others"],
};

let level = 1;

/** The key of the next definition of a kind; levels are named by their number. */
const definitionKey = (kind: string): string =>
  kind === "level" ? String((level = level >= 900 ? 2 : level + 1)) : unique(kind);

/** A document that makes a definition of a kind, with a key of its own. */
export const definitionDocument = (kind: string, more: Json = {}): { key: string; name: string } & Json => {
  const least = LEAST[kind];
  if (!least) throw new Error(`test/support/rules/definition-documents.ts does not know the kind ${kind}`);
  return { key: definitionKey(kind), name: `A ${kind}`, ...structuredClone(least), ...more };
};
