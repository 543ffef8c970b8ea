import { followMetrics } from "./badges/award.ts";
import type { EventData, EventType } from "../kernel/events/domain-events.ts";
import { DERIVED_EVENT_TYPES } from "../kernel/events/event-types.ts";
import { holdingsOf, scoreEvent, scoreHoldings } from "./boards/holdings.ts";
import { countEvent } from "./metrics/count.ts";
import { giveBundle } from "./rewards/give.ts";
import { advanceAdventures, changeAdventure, grantPremium, refreshGoals } from "./adventures/advance.ts";
import { adventureStanding, announceAdventures } from "./adventures/show.ts";
import { isQuestOpen } from "./adventures/progress.ts";
import { advanceQuests, saveSeenQuests, watchQuests } from "./quests/advance.ts";
import { announceQuests, changeQuest, questStanding } from "./quests/show.ts";
import type { RuleObserver } from "./running/outcome.ts";
import { runRules, runSpawned, SPAWNED_TYPES } from "./running/run.ts";
import { refreshSegments, saveSeenSegments, watchSegments } from "./segments/membership.ts";
import {
  isGuarded,
  playerOf,
  reportLoop,
  reportStepsHit,
  type Root,
  saveTurn,
  type TraceSink,
  type Turn,
} from "./turn.ts";
import { advanceStreaks } from "./streaks/advance.ts";
import { derive, publish } from "./emit.ts";
import { EventCost } from "./event-cost.ts";
import type { PlayerState } from "./player-state.ts";
import type { PlanTurn, ProjectPlan } from "./project-plan.ts";
import type { RuleEvent } from "./rule-event.ts";
import type { SharedCounters } from "./shared-counters.ts";
import type { Effects } from "./effects.ts";

type TurnParts = {
  plan: ProjectPlan;
  player: PlayerState;
  event: RuleEvent;
  nowMs: number;
  effects: Effects;
  shared: SharedCounters;
  /** Whether `event` is a tracked event, so that its effects are shown with it. */
  isTracked?: boolean;
  trace?: TraceSink | undefined;
  /** Called for every rule that is considered. */
  observe?: RuleObserver | undefined;
  /** Previous firings of rules for this root; default: none. */
  firings?: Root["firings"] | undefined;
  /** Cost of this root before; default: none. */
  cost?: EventCost | undefined;
};

/** Opens the pass of a root event: what it emits becomes outbox rows numbered by the player's stream. */
export const openTurn = ({ isTracked = false, trace, observe, firings, ...parts }: TurnParts): PlanTurn => {
  const { event, cost = new EventCost() } = parts;
  watchSegments(parts.plan.segmentIndex, parts.player);
  watchQuests(parts.plan.quests, parts.player);
  const root: Root = {
    id: event.id,
    isTracked,
    derived: [],
    taken: 0,
    spawned: 0,
    hop: SPAWNED_TYPES.has(event.type) ? Number(event.properties["hop"] ?? 0) : 0,
    firings: firings ?? new Map(),
    guarded: [],
    outboxBefore: parts.effects.outbox.length,
    before: holdingsOf(parts.plan.boardIndex, { ...parts, project: parts.plan }),
    loop: undefined,
    cost,
    acting: undefined,
    observe,
    trace,
  };
  return passOf({ ...parts, root, project: parts.plan }, event);
};

/**
 * As `saveTurn`, for a turn that may be undone after it is settled, and begun again: what segments and quests
 * have seen of the player is restored too.
 */
export const saveSettled = (turn: PlanTurn): (() => void) => {
  const restore = [saveTurn(turn), saveSeenSegments(turn.player), saveSeenQuests(turn.player)];
  return () => restore.forEach((put) => put());
};

const ignore = (): void => undefined;

/** What the turns of a pass share. */
type Shared = Pick<PlanTurn, "project" | "player" | "nowMs" | "effects" | "shared" | "root">;

/** Creates the turn of one event, which shares everything else with its root's. */
const passOf = ({ project, player, nowMs, effects, shared, root }: Shared, event: RuleEvent): PlanTurn => {
  const turn: PlanTurn = {
    project,
    player,
    event,
    nowMs,
    effects,
    shared,
    root,
    emit: <T extends EventType>(type: T, data: EventData<T>) => {
      publish(turn, type, data);
      if (DERIVED_EVENT_TYPES.has(type)) derive(turn, type, data);
    },
    give: giveBundle,
    questStanding: (key) => questStanding(turn, key),
    isQuestOpen: (key) => isQuestOpen(turn, key),
    adventureStanding: (key) => adventureStanding(turn, key),
    grantPremium: (key) => grantPremium(turn, key),
    changeQuest: (order, cause) => changeQuest(turn, order, cause),
    changeAdventure: (order) => changeAdventure(turn, order),
    warn: root.trace?.warn ?? ignore,
  };
  return turn;
};

/**
 * Evaluates a tracked event and everything it causes: counters, streaks, segments, rules by priority, quests,
 * badges that follow metrics, leaderboard scores; then the same for each derived event, first in first out.
 * Pure except for `turn`; no I/O. The order is part of the contract with integrators.
 * @returns a message when the event was sent for something that cannot be done
 */
export const evaluateEvent = (turn: PlanTurn): string | undefined => {
  const { player, event } = turn;
  const xpBefore = player.xp;
  const problem = SPAWNED_TYPES.has(event.type) ? evaluateSpawned(turn) : evaluateOne(turn);
  // Not earlier: until here it is the previous time, which rules for returning players read.
  const isOwn = !event.type.startsWith("system.");
  if (isOwn) seeAt(player, event.at);
  settleTurn(turn, xpBefore);
  return problem;
};

/** Events may come late, and in any order. */
const seeAt = (player: PlayerState, at: number): void => {
  if (player.lastSeenAt === null || at > player.lastSeenAt.getTime()) player.lastSeenAt = new Date(at);
  if (at < (player.firstSeenAt ?? player.createdAt).getTime()) player.firstSeenAt = new Date(at);
};

/**
 * Evaluates the events derived from the effects so far, until none is left or the loop guard stops it.
 * @param xpBefore the player's XP when the turn was opened
 */
export const settleTurn = (turn: PlanTurn, xpBefore: number): void => {
  const { project } = turn;
  refreshSegments(project.segmentIndex, turn);
  refreshGoals(turn);
  const isWhole = evaluateDerived(turn);
  // What the last events have changed may complete quests, and that may trigger rules.
  refreshGoals(turn);
  if (isWhole) evaluateDerived(turn);
  announceQuests(turn);
  announceAdventures(turn);
  scoreHoldings(project.boardIndex, turn, xpBefore);
  reportLoop(turn);
  reportStepsHit(turn);
};

/** @returns false when the loop guard has cut off some */
const evaluateDerived = (turn: PlanTurn): boolean => {
  const { root } = turn;
  while (root.taken < root.derived.length) {
    if (isGuarded(turn)) return false;
    evaluateOne(passOf(turn, root.derived[root.taken++]!));
  }
  return true;
};

const evaluateOne = (turn: PlanTurn): undefined => {
  const { trace } = turn.root;
  const { rules, boardIndex, segmentIndex } = turn.project;
  trace?.open(turn);
  countEvent(turn);
  advanceStreaks(turn);
  refreshSegments(segmentIndex, turn);
  if (trace) trace.runRules(turn);
  else runRules(rules, turn);
  advanceQuests(turn);
  advanceAdventures(turn);
  followMetrics(turn);
  scoreEvent(turn, boardIndex);
  refreshSegments(segmentIndex, turn);
  trace?.close(turn);
};

const evaluateSpawned = (turn: Turn): string | undefined => {
  turn.root.trace?.open(turn);
  const problem = runSpawned(turn);
  turn.root.trace?.close(turn);
  return problem;
};

/** Announces a player that an event has just created. */
export const announcePlayer = (turn: Turn, source: "EVENT" | "IDENTIFY"): void => {
  const { player } = turn;
  turn.emit("player.created", {
    ...playerOf(turn),
    displayName: player.displayName,
    xp: player.xp,
    level: player.level,
    attributes: player.attributes,
    tags: player.tags,
    source,
    createdAt: player.createdAt.toISOString(),
  });
};

/** Returns the pseudo event of a change without a tracked event, such as a grant by REST. */
export const changeEvent = (id: string, nowMs: number): RuleEvent => ({
  id,
  type: "system.change",
  at: nowMs,
  properties: {},
  depth: 0,
});
