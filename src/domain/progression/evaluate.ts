import { followMetrics } from "../badges/award.ts";
import {
  type Cause,
  type CustomData,
  customType,
  type EventData,
  type EventType,
  type Json,
} from "../events.ts";
import { scoreEvent, scoreXp } from "../leaderboards/scoring.ts";
import { countEvent } from "../metrics/metric.ts";
import { runRules } from "../rules/run.ts";
import { runSpawned, SPAWNED_TYPES } from "../rules/spawned.ts";
import { refreshSegments } from "../segments/membership.ts";
import { advanceStreaks } from "../streaks/advance.ts";
import { outboxRow } from "../work.ts";
import { isGuarded } from "./loop-guard.ts";
import type { ProjectPlan } from "./plan.ts";
import type { SharedCounters } from "./shared-counters.ts";
import type { Effects, PlayerState, RuleEvent, TraceSink, Turn } from "./turn.ts";

export const noEffects = (): Effects => ({
  outbox: [],
  ledger: [],
  executions: [],
  spawned: [],
  badgeAwards: [],
  streakRuns: [],
  rewardGrants: [],
  inbox: [],
  traces: [],
});

export type TurnParts = {
  plan: ProjectPlan;
  player: PlayerState;
  event: RuleEvent;
  nowMs: number;
  effects: Effects;
  shared: SharedCounters;
  /** Whether `event` is a tracked event, so that what it causes is shown with it. */
  isTracked?: boolean;
  trace?: TraceSink | undefined;
};

/** Opens the pass of a root event: what it emits becomes outbox rows numbered by the player's stream. */
export const openTurn = ({ isTracked = false, trace, ...parts }: TurnParts): Turn => {
  const { event } = parts;
  const root = { id: event.id, isTracked, derived: [], taken: 0, firings: new Map(), guarded: [], trace };
  return passOf({ ...parts, root, project: parts.plan }, event);
};

/** The pass of one event, sharing everything else with its root's. */
const passOf = (
  { project, player, nowMs, effects, shared, root }: Omit<Turn, "event" | "emit" | "warn">,
  event: RuleEvent,
): Turn => {
  const turn: Turn = {
    project,
    player,
    event,
    nowMs,
    effects,
    shared,
    root,
    emit: <T extends EventType>(type: T, data: EventData<T>) => {
      tell(turn, type, data);
      derive(turn, type, data);
    },
    warn: () => undefined,
  };
  return turn;
};

/** Writes one line of the player's stream. */
const tell = ({ player, effects, root }: Turn, type: string, data: unknown): void => {
  const options = {
    playerId: player.id,
    playerSeq: ++player.seq,
    ...(root.isTracked ? { eventId: root.id } : {}),
  };
  effects.outbox.push(outboxRow(player.projectId, type, data, options));
};

/** Queues an event that an effect brings about, where anything listens to its type. */
const derive = ({ project, event, root }: Turn, type: string, properties: Json): void => {
  if (!project.hears(type)) return;
  root.derived.push({ id: root.id, type, at: event.at, properties, depth: event.depth + 1 });
};

export type CustomEvent = {
  eventType: string;
  properties: Json;
  cause: Cause;
  /** `rules`: other rules hear it; `webhook` and `realtime`: it goes out as `custom.{eventType}`. */
  channels: readonly string[];
};

/** Emits an event of the integrator's own, as the action `emit_event` does. */
export const emitCustom = (turn: Turn, { eventType, properties, cause, channels }: CustomEvent): void => {
  const { id: playerId, externalUserId } = turn.player;
  if (channels.includes("webhook") || channels.includes("realtime")) {
    const data: CustomData & { channels: readonly string[] } = {
      playerId,
      externalUserId,
      eventType,
      properties,
      cause,
      channels,
    };
    tell(turn, customType(eventType), data);
  }
  if (channels.includes("rules")) derive(turn, eventType, properties);
};

/**
 * Evaluates a tracked event and everything it brings about: counters, streaks, segments, rules by priority,
 * badges that follow metrics, leaderboard scores; then the same for each derived event, first in first out.
 * Pure but for `turn`; no I/O. The order is part of the contract with integrators.
 */
export const evaluateEvent = (turn: Turn): void => {
  const { player, event } = turn;
  const xpBefore = player.xp;
  if ((SPAWNED_TYPES as readonly string[]).includes(event.type)) runSpawned(turn);
  else evaluateOne(turn);
  settleTurn(turn, xpBefore);
  // Last: until now it is when the player was seen before, which is what a rule for comebacks asks.
  const isOwn = !event.type.startsWith("system.");
  if (isOwn && (player.lastSeenAt === null || event.at > player.lastSeenAt.getTime())) {
    player.lastSeenAt = new Date(event.at);
  }
};

/**
 * Takes up what the effects so far have brought about, until nothing is left or the loop guard stops it.
 * @param xpBefore the player's XP when the turn was opened
 */
export const settleTurn = (turn: Turn, xpBefore: number): void => {
  const { root } = turn;
  refreshSegments(turn);
  while (root.taken < root.derived.length && !isGuarded(turn)) {
    const event = root.derived[root.taken++]!;
    evaluateOne(passOf(turn, event));
  }
  if (turn.player.xp !== xpBefore) scoreXp(turn, turn.project.boardIndex);
};

const evaluateOne = (turn: Turn): void => {
  countEvent(turn);
  advanceStreaks(turn);
  refreshSegments(turn);
  runRules(turn.project.rules, turn);
  followMetrics(turn);
  scoreEvent(turn, turn.project.boardIndex);
  refreshSegments(turn);
};

/** Announces a player who has just been made by an event. */
export const announcePlayer = (turn: Turn, source: "EVENT" | "IDENTIFY"): void => {
  const { player } = turn;
  turn.emit("player.created", {
    playerId: player.id,
    externalUserId: player.externalUserId,
    displayName: player.displayName,
    xp: player.xp,
    level: player.level,
    attributes: player.attributes,
    tags: player.tags,
    source,
    createdAt: player.createdAt.toISOString(),
  });
};

/** The pseudo event of a change that no tracked event caused, such as a grant by REST. */
export const changeEvent = (id: string, nowMs: number): RuleEvent => ({
  id,
  type: "system.change",
  at: nowMs,
  properties: {},
  depth: 0,
});

/** The cause of an effect as the API shows it. */
export const causeOf = (data: Record<string, unknown>, eventId: string): Cause =>
  (data["cause"] as Cause | undefined) ?? { kind: "EVENT", eventId };
