import { isReservedType } from "../../kernel/events/event-types.ts";
import { compileFilter, filterSteps } from "../metrics/filter.ts";
import { type Pieces, stepsOfValue } from "../../kernel/pace.ts";
import type { Spender } from "../event-accounts.ts";
import type { EventContext } from "../rule-event.ts";
import { atOnce } from "../../kernel/slices.ts";
import type { Turn } from "../turn.ts";
import { compilePath } from "../language/paths.ts";
import type { Metric } from "./board-metric.ts";
import type { Board } from "./board.ts";
import { type HoldingBoards, holdingBoards } from "./holdings.ts";
import { record } from "./record.ts";
import { toRankScore, toUs } from "./scoring.ts";

/** Returns the score of an event; undefined when the event does not count. */
export type ScoreOf = (context: EventContext) => number | undefined;
export type Listener = { board: Board; scoreOf: ScoreOf; steps: number; spender: Spender };

/** The active boards of a project by their source. */
export type BoardIndex = HoldingBoards & { forEvent(eventType: string): readonly Listener[] };

/** Maximum event types whose listeners an index caches; integrators may send any number of types. */
const TYPES_REMEMBERED_MAX = 1_000;

/**
 * Indexes a project's active boards by their source. To be built once per config version, since filters are
 * compiled here.
 */
export const indexBoards = (boards: readonly Board[]): BoardIndex => atOnce(boardPieces(boards));

/** As `indexBoards`, in slices. */
export function* boardPieces(boards: readonly Board[]): Pieces<BoardIndex> {
  const active = boards.filter((board) => board.status === "ACTIVE");
  const listeners: ReturnType<typeof listenersOf> = [];
  for (const board of active) {
    yield stepsOfValue(board.metric);
    listeners.push(...listenersOf(board));
  }
  const byType = new Map<string, readonly Listener[]>();
  const find = (eventType: string): readonly Listener[] => {
    const found = listeners.filter(({ matches }) => matches(eventType));
    if (byType.size < TYPES_REMEMBERED_MAX) byType.set(eventType, found);
    return found;
  };
  return {
    ...holdingBoards(active),
    forEvent: (eventType) => byType.get(eventType) ?? find(eventType),
  };
}

/** Steps of recording a score in a list. */
const RECORD_STEPS = 30;

type Matcher = (eventType: string) => boolean;

const listenersOf = (board: Board): (Listener & { matches: Matcher })[] => {
  if (board.metric.source !== "EVENT") return [];
  const matchers = board.metric.event.eventTypes.map(matcherOf);
  return [
    {
      board,
      scoreOf: compileScore(board.metric),
      steps: RECORD_STEPS + filterSteps(board.metric.event.filter),
      spender: { kind: "leaderboard", id: board.id, key: board.key },
      matches: (type) => matchers.some((matches) => matches(type)),
    },
  ];
};

const matcherOf = (pattern: string): Matcher => {
  // As in rules, the star matches all events of the integrator's own, but not the events derived from them.
  if (pattern === "*") return (eventType) => !isReservedType(eventType);
  if (!pattern.endsWith(".*")) return (eventType) => eventType === pattern;
  const prefix = pattern.slice(0, -1);
  return (eventType) => eventType.startsWith(prefix);
};

/**
 * Compiles an event's score by its metric: 1 for count, otherwise the property, which counts only if it is a
 * finite number.
 */
export const compileScore = ({
  event,
  aggregate,
  property,
}: Extract<Metric, { source: "EVENT" }>): ScoreOf => {
  const passes = event.filter ? compileFilter(event.filter) : () => true;
  const read = aggregate === "count" ? () => 1 : compilePath(property!);
  return (turn) => {
    if (!passes(turn)) return undefined;
    const score = read(turn.event.properties);
    return typeof score === "number" && Number.isFinite(score) ? score : undefined;
  };
};

/** Scores the turn's event on every board that listens to it. */
export const scoreEvent = (turn: Turn, index: Pick<BoardIndex, "forEvent">): void => {
  const { type, at, depth } = turn.event;
  const { upkeep } = turn.root.accounts;
  for (const { board, scoreOf, steps, spender } of index.forEvent(type)) {
    if (upkeep.isSpent) return turn.warn(`out of steps: board ${board.key} and what follows do not count`);
    const before = upkeep.spent;
    upkeep.spend(steps);
    const score = scoreOf(turn);
    upkeep.recordSpender(spender, before);
    // The lists of derived events are not known when the player is loaded.
    if (score === undefined || (depth > 0 && board.breakdownProperty !== undefined)) continue;
    const rankScore = toRankScore(board, score);
    record(turn, board, { operator: board.operator, rankScore, atUs: toUs(at), moment: turn.event });
  }
};
