import { DomainError } from "../domain/kernel/errors.ts";
import { firstProblem } from "../domain/kernel/zod-problems.ts";
import type { ScoreSubmission } from "../domain/leaderboards/record-scores.ts";
import { type BatchScore, unreadable } from "../domain/leaderboards/scores.ts";
import { parseSized } from "../domain/kernel/oversize.ts";
import { mapInSlices } from "../domain/kernel/slices.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { SubmittedScore } from "./resources/score-bodies.ts";

/** One score of a batch, or why it is invalid. */
export type ScoreItem = { submission: ScoreSubmission } | { problem: string };

/** Parses the scores of a batch one by one, so that an invalid one is refused individually. */
export const readScoreItems = (items: readonly unknown[]): Promise<ScoreItem[]> =>
  mapInSlices(items, readItem);

const readItem = (item: unknown): ScoreItem => {
  try {
    refuseHostile("", item);
  } catch (error) {
    if (error instanceof DomainError) return { problem: error.message };
    throw error;
  }
  const read = parseSized(SubmittedScore, item);
  if (!read.success) {
    return { problem: firstProblem(read.error) };
  }
  const { occurredAt, ...submission } = read.data;
  return {
    submission: {
      ...submission,
      occurredAt: occurredAt === undefined ? undefined : new Date(occurredAt),
    },
  };
};

/** Returns one result per item, in order; valid items get the result of their submission. */
export const resultsInOrder = (items: readonly ScoreItem[], results: readonly BatchScore[]): BatchScore[] => {
  let next = 0;
  return items.map((item) => ("problem" in item ? unreadable(item.problem) : results[next++]!));
};
