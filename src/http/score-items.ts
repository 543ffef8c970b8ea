import { DomainError } from "../domain/kernel/errors.ts";
import type { ScoreSubmission } from "../domain/leaderboards/record-scores.ts";
import { type BatchScore, unreadable } from "../domain/leaderboards/scores.ts";
import { parseSized } from "../domain/kernel/oversize.ts";
import { mapInSlices } from "../domain/kernel/slices.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { SubmittedScore } from "./resources/score-bodies.ts";

/** One score of a batch, or why it cannot be read. */
export type ScoreItem = { submission: ScoreSubmission } | { problem: string };

/** Reads the scores of a batch one by one, so that a bad one is refused in its place. */
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
    const [issue] = read.error.issues;
    const path = issue!.path.join(".");
    return { problem: path === "" ? issue!.message : `${path}: ${issue!.message}` };
  }
  const { occurredAt, ...submission } = read.data;
  return {
    submission: {
      ...submission,
      occurredAt: occurredAt === undefined ? undefined : new Date(occurredAt),
    },
  };
};

/** One result for each item: of those that could be read, what came of them. */
export const resultsInOrder = (items: readonly ScoreItem[], results: readonly BatchScore[]): BatchScore[] => {
  let next = 0;
  return items.map((item) => ("problem" in item ? unreadable(item.problem) : results[next++]!));
};
