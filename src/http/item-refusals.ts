import type { z } from "zod";
import { DomainError } from "../domain/kernel/errors.ts";
import { isLongJson, refuseHostile } from "../domain/kernel/hostile-json.ts";
import { ignoredFields } from "../domain/kernel/json.ts";
import { mapInSlices } from "../domain/kernel/slices.ts";
import { firstProblem } from "../domain/kernel/zod-problems.ts";
import { type BatchScore, type ScoreSubmission, unreadable } from "../domain/leaderboards/record-scores.ts";
import type { PlayerInput } from "../domain/progression/players/players.ts";
import { NewPlayer } from "./resources/player-bodies.ts";
import { SubmittedScore } from "./resources/leaderboards.ts";

/** One player of a batch, or why it is invalid. */
export type ReadItem =
  | { externalUserId: string; player: PlayerInput; ignored: string[] }
  | { externalUserId: string | null; problem: string };

/** Parses the players of a batch one by one, so that an invalid one is refused individually. */
export const readPlayerItems = (items: readonly unknown[]): Promise<ReadItem[]> =>
  mapInSlices(items, readItem);

const FIELDS: ReadonlySet<string> = new Set(Object.keys(NewPlayer.shape));

const readItem = (item: unknown): ReadItem => {
  const hostile = hostileProblem(item);
  if (hostile !== undefined) return { externalUserId: null, problem: hostile };
  const read = NewPlayer.safeParse(item);
  if (read.success) {
    const { tags, ...profile } = read.data;
    const player = { ...profile, ...(tags ? { addTags: tags } : {}) };
    return { externalUserId: player.externalUserId, player, ignored: ignoredFields(item, FIELDS) };
  }
  return { externalUserId: fitId(item), problem: firstProblem(read.error) };
};

const hostileProblem = (item: unknown): string | undefined => {
  try {
    refuseHostile("", item);
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error.message;
    throw error;
  }
};

const fitId = (item: unknown): string | null => {
  const id = NewPlayer.shape.externalUserId.safeParse(
    (item as { externalUserId?: unknown } | null)?.externalUserId,
  );
  return id.success ? id.data : null;
};

/** One score of a batch, or why it is invalid. */
type ScoreItem = { submission: ScoreSubmission } | { problem: string };

/** Parses the scores of a batch one by one, so that an invalid one is refused individually. */
export const readScoreItems = (items: readonly unknown[]): Promise<ScoreItem[]> =>
  mapInSlices(items, readScoreItem);

const readScoreItem = (item: unknown): ScoreItem => {
  const hostile = hostileProblem(item);
  if (hostile !== undefined) return { problem: hostile };
  const read = SubmittedScore.safeParse(item);
  return read.success ? { submission: submissionOf(read.data) } : { problem: firstProblem(read.error) };
};

/** Returns a score as it is recorded. */
export const submissionOf = ({ occurredAt, ...given }: z.output<typeof SubmittedScore>): ScoreSubmission => ({
  ...given,
  occurredAt: occurredAt === undefined ? undefined : new Date(occurredAt),
});

/** Returns one result per item, in order; valid items get the result of their submission. */
export const resultsInOrder = (items: readonly ScoreItem[], results: readonly BatchScore[]): BatchScore[] => {
  let next = 0;
  return items.map((item) => ("problem" in item ? unreadable(item.problem) : results[next++]!));
};

/** Number of refused items per request that get an explanation, however short they are. */
export const SHORT_REFUSALS_EXPLAINED = 20;
/** An item with this many characters of JSON always gets an explanation. */
export const LONG_ITEM_CHARS = 32;

/**
 * Returns the results of a batch's items in order, with refusals abbreviated where explanations would make
 * the response many times as long as the request: those of short items, after the first few.
 */
export const explainedInPart = <T, B>(
  items: readonly unknown[],
  results: readonly T[],
  isRefused: (result: T) => boolean,
  brief: (result: T) => B,
): (T | B)[] => {
  let explained = 0;
  return results.map((result, place) => {
    if (!isRefused(result) || isLongJson(items[place], LONG_ITEM_CHARS)) return result;
    explained += 1;
    return explained <= SHORT_REFUSALS_EXPLAINED ? result : brief(result);
  });
};
