import { sql } from "kysely";
import type { Board } from "../evaluation/boards/board.ts";
import { RANK_MAX, nextEntry } from "../evaluation/boards/scoring.ts";
import type { EntryState, PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import type { RecordedScore } from "../evaluation/effects.ts";
import type { Work } from "../kernel/work.ts";
import type { CausedFiring, OtherScores, SubmittedScores } from "./record.ts";
import { tooLarge } from "./too-large.ts";

/** Maximum number of firings of one player read for the scores that they submitted. */
const FIRINGS_READ_MAX = 50_000;

/** A player with the firings of all events that are reverted together. */
type Scored = { player: PlayerState; firings: readonly CausedFiring[] };
type Query = { plan: ProjectPlan; players: readonly Scored[]; eventIds: readonly string[] };

/** What the entry of a list is without reverted events, by list; absent where that is not known. */
export type OthersOfLists = ReadonlyMap<string, OtherScores>;

/**
 * Reads what players' other scores give on the lists on which rules have submitted scores for events, by
 * player. That is known where rules alone have submitted scores, and their firings are still kept.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE when several players have more than one may have
 */
export const readSubmitted = async (
  work: Work,
  { plan, players, eventIds }: Query,
): Promise<Map<string, OthersOfLists>> => {
  const scored = players.filter(({ firings }) => firings.some(({ scores }) => (scores ?? []).length > 0));
  const all = await readRecorded(work, plan.projectId, { players: scored, eventIds });
  const found = new Map<string, OthersOfLists>();
  for (const { player, firings } of scored) {
    const lists = new Set(firings.flatMap(({ scores }) => scores ?? []).map(([listId]) => listId));
    const recorded = all?.get(player.id);
    const others = new Map<string, OtherScores>();
    for (const listId of lists) {
      const board = boardOf(plan, player, listId);
      const entry = player.entries.get(listId);
      const other =
        board && entry && recorded && foldOthers(board, { entry, recorded: recorded.get(listId) ?? [] });
      if (other !== undefined) others.set(listId, other);
    }
    found.set(player.id, others);
  }
  return found;
};

/** Returns the scores that rules have submitted for an event, by list. */
export const submittedBy = (
  plan: ProjectPlan,
  { player, firings }: Scored,
  others: OthersOfLists | undefined,
): SubmittedScores[] => {
  const own = Map.groupBy(
    firings.flatMap(({ scores }) => scores ?? []),
    ([listId]) => listId,
  );
  return [...own].map(([listId, scores]) => {
    const other = others?.get(listId);
    return {
      listId,
      board: boardOf(plan, player, listId),
      scores,
      ...(other === undefined ? {} : { other }),
    };
  });
};

const boardOf = (plan: ProjectPlan, player: PlayerState, listId: string): Board | undefined =>
  player.lists.get(listId)?.board ?? plan.boards.find(({ periodId }) => periodId === listId);

type Recorded = { score: RecordedScore; isReverted: boolean };

type RecordedRow = { playerId: string; scores: RecordedScore[]; isReverted: boolean };

/** @returns by player and list, in the order of submission; undefined when a single player has too many */
const readRecorded = async (
  { db }: Work,
  projectId: string,
  { players, eventIds }: Pick<Query, "players" | "eventIds">,
): Promise<Map<string, Map<string, Recorded[]>> | undefined> => {
  if (players.length === 0) return undefined;
  const ids = `{${players.map(({ player }) => player.id).join(",")}}`;
  const { rows } = await sql<RecordedRow>`
    select player_id as "playerId", effects->'scores' as scores,
      event_id = any(${`{${eventIds.join(",")}}`}::uuid[]) as "isReverted"
    from rule_executions
    where project_id = ${projectId} and player_id = any(${ids}::uuid[])
      and effects is not null and mode = 'LIVE' and reverted_at is null and effects ? 'scores'
    order by created_at, id limit ${sql.lit(FIRINGS_READ_MAX + 1)}`.execute(db);
  if (rows.length > FIRINGS_READ_MAX) {
    if (players.length > 1) throw tooLarge("the players have too many other scores");
    return undefined;
  }
  const byPlayer = Map.groupBy(rows, ({ playerId }) => playerId);
  return new Map([...byPlayer].map(([playerId, own]) => [playerId, byList(own)]));
};

const byList = (rows: readonly RecordedRow[]): Map<string, Recorded[]> =>
  Map.groupBy(
    rows.flatMap(({ scores, isReverted }) => scores.map((score) => ({ score, isReverted }))),
    ({ score: [listId] }) => listId,
  );

type Fold = { entry: EntryState; recorded: readonly Recorded[] };

/** Returns the entry of the other scores; undefined where the recorded ones are not all, or give another. */
const foldOthers = (board: Board, { entry, recorded }: Fold): OtherScores | undefined => {
  if (entry.recorded !== recorded.length) return undefined;
  const fold = (some: readonly Recorded[]): EntryState | undefined =>
    some.reduce<EntryState | undefined>((old, { score: [, rankScore, atUs] }) => {
      const { operator } = board;
      return nextEntry(board, old, { operator, rankScore, atUs }) ?? old;
    }, undefined);
  if (fold(recorded)?.rankScore !== entry.rankScore) return undefined;
  const other = fold(recorded.filter(({ isReverted }) => !isReverted));
  if (!other) return null;
  const { rankScore, rankTie, latestUs } = other;
  return { rankScore, rankTie, latestUs };
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
