import { growthOf, reportUncounted, reserveRoom, type Turn } from "../turn.ts";
import { createTypeIndex } from "../language/patterns.ts";
import { calendarOf } from "../../kernel/zones.ts";
import { type AggregateState, isClamped, type Sample } from "./aggregates.ts";
import {
  addToCounter,
  type CompiledMetric,
  type CounterState,
  isLate,
  type Moment,
  readCounter,
} from "./compile.ts";

/** The player whose counters are read, and the project, for its time zone. */
type PlayerContext = Pick<Turn, "player" | "project">;

const momentOf = (
  { zone, window }: CompiledMetric,
  { player, project }: PlayerContext,
  at: number,
): Moment => {
  if (window.type !== "CALENDAR") return { at };
  return { at, calendar: calendarOf(project, zone === "PLAYER" ? player.timezone : null) };
};

const stateOf = ({ player }: PlayerContext, { id }: CompiledMetric): CounterState | undefined =>
  player.doc.c?.[id] as CounterState | undefined;

/** Step 1 of evaluation: counts the event in every metric of its type, in the window of its own time. */
export const countEvent = (turn: Turn): void => {
  for (const metric of turn.project.metrics.forEvent(turn.event.type)) count(turn, metric);
};

/** Maximum bytes of JSON that a sample adds to a document: those of a new counter. */
const GROWTH_MAX = 100;

const count = (turn: Turn, metric: CompiledMetric): void => {
  const { player, event } = turn;
  const sample = metric.sampleOf(turn);
  if (sample === undefined) return;
  const old = stateOf(turn, metric);
  const moment = momentOf(metric, turn, event.at);
  const next = addToCounter(metric, old, sample, moment);
  if (next === old) {
    if (isLate(metric, old, moment)) turn.warn(`late: ${nameOf(metric)} no longer counts that window`);
    return;
  }
  if (!reserveRoom(turn, { most: GROWTH_MAX, grown: () => growthOf(`"${metric.id}":,`, old, next) }))
    return reportUncounted(turn, nameOf(metric), metric.spender);
  if (isOver(metric, next)) turn.warn(`${nameOf(metric)} has reached the bound of ±9,000,000,000`);
  (player.doc.c ??= {})[metric.id] = next;
  player.dirty.doc = true;
};

const nameOf = ({ definition: { aggregate, eventTypes, property } }: CompiledMetric): string =>
  `metric ${aggregate}(${property ?? eventTypes.join(", ")})`;

const isOver = ({ aggregate, window }: CompiledMetric, state: CounterState | undefined): boolean => {
  if (window.type === "LIFETIME" || window.type === "SINCE")
    return isClamped(aggregate, state as AggregateState);
  const newest = (state as readonly [number, AggregateState][]).at(-1)!;
  return isClamped(aggregate, newest[1]);
};

/**
 * Returns a metric's value for the turn's player at the time of the turn's event; undefined where there is
 * none: min, max, avg and latest of no events, or a window so old that it is no longer kept.
 */
export const readMetric = (turn: Pick<Turn, "player" | "project" | "event">, metric: CompiledMetric) =>
  readMetricAt(turn, metric, turn.event.at);

/** As `readMetric`, at any moment in ms. */
export const readMetricAt = (
  owner: PlayerContext,
  metric: CompiledMetric,
  atMs: number,
): number | undefined => readCounter(metric, stateOf(owner, metric), momentOf(metric, owner, atMs));

/** A stored event, for recounting. */
export type PastEvent = { type: string; at: number; properties: Turn["event"]["properties"] };

/** Returns the sample and moment of an event; undefined when it does not count. For reverts. */
export const sampleOfEvent = (
  metric: CompiledMetric,
  owner: PlayerContext,
  { type, at, properties }: PastEvent,
): { sample: Sample; moment: Moment } | undefined => {
  const sample = metric.sampleOf({ event: { id: "", type, at, properties, depth: 0 } });
  return sample === undefined ? undefined : { sample, moment: momentOf(metric, owner, at) };
};

/**
 * Recounts a metric from a player's events, in order of arrival; `state` is the initial state.
 * Events of other types are ignored, so all of a player's events may be passed.
 */
export const foldEvents = (
  metric: CompiledMetric,
  owner: PlayerContext,
  events: Iterable<PastEvent>,
  { state }: { state?: CounterState | undefined } = {},
): CounterState | undefined => {
  const hears = createTypeIndex([{ patterns: metric.definition.eventTypes }], (found) => found.length > 0);
  let folded = state;
  for (const event of events) {
    const counted = hears(event.type) ? sampleOfEvent(metric, owner, event) : undefined;
    if (counted) folded = addToCounter(metric, folded, counted.sample, counted.moment);
  }
  return folded;
};
