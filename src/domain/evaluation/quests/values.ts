import type { AggregateState } from "../metrics/aggregates.ts";
import { aggregateValue } from "../metrics/aggregates.ts";
import { readMetric } from "../metrics/count.ts";
import type { Turn } from "../turn.ts";
import type { CompiledQuest, CompiledStep } from "./compile.ts";
import type { QuestRow, StepProgress } from "./row.ts";
import { requiredOf } from "./step-graph.ts";

/** The player whose steps are read. */
type Reader = Pick<Turn, "player" | "project" | "event">;

/** The count of a streak: its last period, and its length. */
type StreakCount = readonly [period: number, length: number];

/** Returns what a step has counted. */
export const countOf = (
  { player }: Pick<Reader, "player">,
  row: QuestRow,
  key: string,
): AggregateState | undefined => player.doc.q?.[row.id]?.[key];

/** Returns the value of a step that is not done; undefined for `min` and the like without events. */
export const currentValue = (reader: Reader, row: QuestRow, step: CompiledStep): number | undefined => {
  const { definition, lifetime } = step;
  if (definition.kind === "STATE") return 0;
  if (definition.kind !== "EVENT") return row.steps[definition.key]?.value ?? 0;
  if (lifetime) return readMetric(reader, lifetime);
  const count = countOf(reader, row, definition.key);
  if (definition.metric.aggregate === "streak") return (count as StreakCount | undefined)?.[1] ?? 0;
  return aggregateValue(definition.metric.aggregate, count);
};

/** Returns whether a value is that of a step that is done. */
export const isReached = ({ definition, target }: CompiledStep, value: number | undefined): boolean => {
  if (value === undefined) return false;
  const isLow = definition.kind === "EVENT" && definition.metric.aggregate === "min";
  return isLow ? value <= target : value >= target;
};

/** Returns the value of a step as it is shown: 0 where there is none. */
export const shownValue = (reader: Reader, row: QuestRow, step: CompiledStep): number => {
  const progress: StepProgress | undefined = row.steps[step.definition.key];
  if (progress?.doneMs !== undefined || row.state !== "IN_PROGRESS") return progress?.value ?? 0;
  return currentValue(reader, row, step) ?? 0;
};

/** Returns how far a step is, 0 to 100; 100 only when it is done. */
export const stepPercent = (
  step: CompiledStep,
  { value, isDone }: { value: number; isDone: boolean },
): number => {
  if (isDone) return 100;
  const { definition, target } = step;
  const isLow = definition.kind === "EVENT" && definition.metric.aggregate === "min";
  if (definition.kind === "STATE" || isLow || target <= 0) return 0;
  return Math.max(0, Math.min(99, Math.floor((100 * value) / target)));
};

const requiredCounts = new WeakMap<CompiledQuest, number>();

const requiredIn = (quest: CompiledQuest): number => {
  const known = requiredCounts.get(quest);
  if (known !== undefined) return known;
  const required = requiredOf(quest.definition);
  requiredCounts.set(quest, required);
  return required;
};

/** Returns how far a quest in progress is: the mean of the required steps that are furthest, at most 99. */
export const questPercent = (reader: Reader, quest: CompiledQuest, row: QuestRow): number => {
  const percents: number[] = [];
  for (const step of quest.steps) {
    const { key, optional } = step.definition;
    if (optional) continue;
    const isDone = row.steps[key]?.doneMs !== undefined;
    percents.push(isDone ? 100 : stepPercent(step, { value: shownValue(reader, row, step), isDone }));
  }
  const required = requiredIn(quest);
  if (required < percents.length) percents.sort((a, b) => b - a);
  let sum = 0;
  for (let i = 0; i < required; i++) sum += percents[i]!;
  return Math.min(99, Math.floor(sum / required));
};
