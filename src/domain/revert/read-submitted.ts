import { sql } from "kysely";
import type { Board } from "../evaluation/boards/board.ts";
import { RANK_MAX, nextEntry } from "../evaluation/boards/scoring.ts";
import type { EntryState, PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { RecordedScore } from "../evaluation/effects.ts";
import type { Work } from "../kernel/work.ts";
import type { CausedFiring, SubmittedScores } from "./record.ts";

/** Maximum number of firings of one player read for the scores that they submitted. */
const FIRINGS_READ_MAX = 50_000;

type Owner = { player: PlayerState; project: ProjectPlan };
type Query = { firings: readonly CausedFiring[]; eventIds: readonly string[] };

/**
 * Reads the scores that rules have submitted for an event, by list, with what the player's other scores give.
 * That is known where rules alone have submitted scores, and their firings are still kept.
 */
export const readSubmitted = async (
  work: Work,
  owner: Owner,
  { firings, eventIds }: Query,
): Promise<SubmittedScores[]> => {
  const own = Map.groupBy(
    firings.flatMap(({ scores }) => scores ?? []),
    ([listId]) => listId,
  );
  if (own.size === 0) return [];
  const all = await readRecorded(work, owner.player, eventIds);
  return [...own].map(([listId, scores]) => {
    const board = boardOf(owner, listId);
    const entry = owner.player.entries.get(listId);
    const known =
      board && entry && all ? foldOthers(board, { entry, recorded: all.get(listId) ?? [] }) : undefined;
    return { listId, board, scores, ...known };
  });
};

const boardOf = ({ player, project }: Owner, listId: string): Board | undefined =>
  player.lists.get(listId)?.board ?? project.boards.find(({ periodId }) => periodId === listId);

type Recorded = { score: RecordedScore; isReverted: boolean };

/** @returns by list, in the order of submission; undefined when there are too many */
const readRecorded = async (
  { db }: Work,
  { id: playerId, projectId }: PlayerState,
  eventIds: readonly string[],
): Promise<Map<string, Recorded[]> | undefined> => {
  const { rows } = await sql<{ scores: RecordedScore[]; isReverted: boolean }>`
    select effects->'scores' as scores,
      event_id = any(${`{${eventIds.join(",")}}`}::uuid[]) as "isReverted"
    from rule_executions
    where project_id = ${projectId} and player_id = ${playerId} and effects is not null and mode = 'LIVE'
      and reverted_at is null and effects ? 'scores'
    order by created_at, id limit ${sql.lit(FIRINGS_READ_MAX + 1)}`.execute(db);
  if (rows.length > FIRINGS_READ_MAX) return undefined;
  const recorded = rows.flatMap(({ scores, isReverted }) => scores.map((score) => ({ score, isReverted })));
  return Map.groupBy(recorded, ({ score: [listId] }) => listId);
};

type Fold = { entry: EntryState; recorded: readonly Recorded[] };

/** Returns the entry of the other scores; undefined where the recorded ones are not all, or give another. */
const foldOthers = (board: Board, { entry, recorded }: Fold): Pick<SubmittedScores, "other"> | undefined => {
  if (entry.recorded !== recorded.length) return undefined;
  const fold = (some: readonly Recorded[]): EntryState | undefined =>
    some.reduce<EntryState | undefined>((old, { score: [, rankScore, atUs] }) => {
      const { operator } = board;
      return nextEntry(board, old, { operator, rankScore, atUs }) ?? old;
    }, undefined);
  if (fold(recorded)?.rankScore !== entry.rankScore) return undefined;
  const other = fold(recorded.filter(({ isReverted }) => !isReverted));
  if (!other) return { other: null };
  const { rankScore, rankTie, latestUs } = other;
  return { other: { rankScore, rankTie, latestUs } };
};

/** Returns a score of a board that adds up, without some of its parts. */
export const withoutParts = (
  { operator }: Board,
  rankScore: number,
  parts: readonly RecordedScore[],
): number => {
  const sum = parts.reduce((total, [, part]) => total + part, 0);
  const rest = operator === "DECR" ? rankScore + sum : rankScore - sum;
  return Math.max(-RANK_MAX, Math.min(RANK_MAX, rest)) + 0;
};
