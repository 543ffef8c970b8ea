import { explainGroup, type TraceNode } from "../language/groups.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { CompiledQuest } from "./compile.ts";
import { deadlineOf, doneBy, type NextCycle, zoneFor } from "./context.ts";
import { cycleAt, hasPeriods } from "./cycles.ts";
import { hasPlace } from "./places.ts";
import type { PlayerQuestState, QuestRow } from "./row.ts";
import { activeSteps } from "./step-graph.ts";
import { freeCycle } from "./start.ts";
import { questPercent, shownValue, stepPercent } from "./values.ts";

export const STEP_STATES = ["LOCKED", "ACTIVE", "PENDING_APPROVAL", "DONE"] as const;

/** A step of a player's quest as the API shows it. Times are ISO 8601. */
export type PlayerQuestStep = {
  stepKey: string;
  kind: string;
  state: (typeof STEP_STATES)[number];
  value: number;
  target: number;
  percent: number;
  completedAt: string | null;
};

/** Why a quest is LOCKED. */
export type LockedBy = { path: string; reason: string };

/** A player's quest as the API shows it; `id` is null while it has not been started in its cycle. */
export type PlayerQuest = {
  id: string | null;
  questKey: string;
  questId: string;
  questVersion: number;
  name: string;
  cycleKey: string;
  state: PlayerQuestState;
  percent: number;
  steps: PlayerQuestStep[];
  startedAt: string | null;
  expiresAt: string | null;
  completedAt: string | null;
  claimedAt: string | null;
  resetsAt: string | null;
  lockedBy?: LockedBy[];
};

const isoOf = (ms: number | null): string | null =>
  ms === null || !Number.isFinite(ms) ? null : new Date(ms).toISOString();

const showSteps = (turn: PlanTurn, quest: CompiledQuest, row: QuestRow | undefined): PlayerQuestStep[] => {
  const isDone = (key: string): boolean => row?.steps[key]?.doneMs !== undefined;
  const active = activeSteps(quest.definition, isDone);
  return quest.steps.map((step, i) => {
    const { key, kind } = step.definition;
    const value = row ? shownValue(turn, row, step) : 0;
    const doneMs = row?.steps[key]?.doneMs;
    const isOpen = row?.state === "IN_PROGRESS" && active[i] === true;
    return {
      stepKey: key,
      kind,
      state: doneMs === undefined ? (isOpen ? "ACTIVE" : "LOCKED") : "DONE",
      value,
      target: step.target,
      percent: stepPercent(step, { value, isDone: doneMs !== undefined }),
      completedAt: isoOf(doneMs ?? null),
    };
  });
};

/** Returns when the next cycle begins; null for a quest without periods. */
const resetsAt = (turn: PlanTurn, { definition: { repeat } }: CompiledQuest): string | null =>
  hasPeriods(repeat) ? isoOf(cycleAt(repeat, zoneFor(repeat.timezone, turn), turn.event.at).endMs) : null;

/** Returns the API form of one cycle of a player's quest. */
export const showRow = (turn: PlanTurn, quest: CompiledQuest, row: QuestRow): PlayerQuest => {
  const version = doneBy(quest, row);
  const isRunning = row.state === "IN_PROGRESS";
  const deadline = row.state === "COMPLETED" ? row.claimUntilMs : isRunning ? deadlineOf(quest, row) : null;
  return {
    id: row.id,
    questKey: quest.key,
    questId: quest.id,
    questVersion: row.version,
    name: version.definition.name,
    cycleKey: row.cycleKey,
    state: row.state === "RESET" ? "AVAILABLE" : row.state,
    percent: isRunning ? questPercent(turn, version, row) : row.percent,
    steps: showSteps(turn, version, row),
    startedAt: isoOf(row.startedMs),
    expiresAt: isoOf(deadline),
    completedAt: isoOf(row.completedMs),
    claimedAt: isoOf(row.claimedMs),
    resetsAt: resetsAt(turn, quest),
  };
};

const SHOWN_MAX = 20;

const failing = (node: TraceNode): TraceNode[] =>
  node.pass ? [] : node.children ? node.children.flatMap(failingIn(node.type)) : [node];

/** Of a `none` group those count that hold. */
const failingIn =
  (group: string) =>
  (node: TraceNode): TraceNode[] => {
    if (group !== "none") return failing(node);
    return node.pass ? [node] : [];
  };

const reasonOf = ({ type, op, expected, actual }: TraceNode): string =>
  [type, op, JSON.stringify(expected), "and it is", JSON.stringify(actual) ?? "nothing"]
    .filter((part) => part !== undefined)
    .join(" ");

/** Returns the conditions that keep a quest LOCKED for a player. */
export const lockedBy = (turn: PlanTurn, { key, definition }: CompiledQuest): LockedBy[] => {
  const { audience, prerequisites } = definition;
  const found: LockedBy[] = [];
  if (!turn.isQuestOpen(key))
    found.push({ path: "adventures", reason: "no running adventure has unlocked it" });
  if (prerequisites) {
    const nodes = failing(explainGroup(prerequisites, turn, "prerequisites"));
    found.push(...nodes.slice(0, SHOWN_MAX).map((node) => ({ path: node.path, reason: reasonOf(node) })));
  }
  if (found.length === 0 && audience)
    found.push({
      path: "audience",
      reason: `segments ${audience.match} of ${audience.segmentKeys.join(", ")}`,
    });
  return found;
};

/** What a player is shown of a quest: the row of a cycle, or a cycle that may be started. */
export type Current = { row: QuestRow } | { next: NextCycle };

/** A cycle that was abandoned stays visible as such; so does one whose rewards wait. */
const isVisible = ({ state }: QuestRow, next: NextCycle | undefined): boolean =>
  next === undefined || state === "COMPLETED" || (next.again !== undefined && state === "ABANDONED");

/** Returns what applies to the cycle of the turn's time; undefined where the quest is not offered. */
export const currentOf = (turn: PlanTurn, quest: CompiledQuest): Current | undefined => {
  const state = turn.player.quests.get(quest.key);
  const next = freeCycle(quest, turn, state, turn.event.at);
  if (state && isVisible(state.latest, next)) return { row: state.latest };
  return next && { next };
};

const FULL: LockedBy = { path: "maxParticipants", reason: "all places are taken" };

const showVirtual = (turn: PlanTurn, quest: CompiledQuest, { cycle }: NextCycle): PlayerQuest => {
  const isFull = !hasPlace(turn, quest);
  const mayStart = quest.mayStart(turn) && !isFull;
  return {
    id: null,
    questKey: quest.key,
    questId: quest.id,
    questVersion: quest.version,
    name: quest.definition.name,
    cycleKey: cycle.key,
    state: mayStart ? "AVAILABLE" : "LOCKED",
    percent: 0,
    steps: showSteps(turn, quest, undefined),
    startedAt: null,
    expiresAt: null,
    completedAt: null,
    claimedAt: null,
    resetsAt: resetsAt(turn, quest),
    ...(mayStart ? {} : { lockedBy: isFull ? [FULL] : lockedBy(turn, quest) }),
  };
};

/**
 * Returns a player's quest in the cycle of the turn's time, which must have been settled; undefined for one
 * that is neither begun nor offered.
 */
export const showQuest = (turn: PlanTurn, quest: CompiledQuest): PlayerQuest | undefined => {
  const current = currentOf(turn, quest);
  if (!current) return undefined;
  return "row" in current ? showRow(turn, quest, current.row) : showVirtual(turn, quest, current.next);
};
