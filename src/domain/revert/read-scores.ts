import { idFloor } from "../kernel/ids.ts";
import type { Board } from "../evaluation/boards/board.ts";
import type { List, NoList } from "../evaluation/boards/list.ts";
import { findList } from "../evaluation/boards/lists.ts";
import type { EntryState, PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { pastEvent } from "../evaluation/rule-event.ts";
import type { StepBudget } from "../kernel/step-budget.ts";
import { nextEntry, toRankScore, toUs } from "../evaluation/boards/scoring.ts";
import type { Work } from "../kernel/work.ts";
import { readHistory } from "./read-history.ts";
import type { OtherScores, RevertedEvent } from "./record.ts";
import { type BoardStarts, isFrom } from "./reverse-scores.ts";

type ScoredPlayer = { plan: ProjectPlan; player: PlayerState; event: RevertedEvent; starts: BoardStarts };

/**
 * Computes the scores of the player's other events on boards whose entry the reverted event has made by
 * itself, by list. Omits boards on which the player has no other event: a place cannot be removed.
 */
export const readOtherScores = async (work: Work, whose: ScoredPlayer): Promise<Map<string, OtherScores>> => {
  const lists = listsOf(whose);
  const scores = new Map<string, OtherScores>();
  if (lists.size === 0) return scores;
  const { plan, player, event } = whose;
  const entries = new Map<string, EntryState>();
  const isAll = await readHistory(
    work,
    { projectId: plan.projectId, playerId: player.id },
    (other, steps) => {
      if (other.id !== event.id) addScores(whose, { entries, lists, other, steps });
    },
  );
  if (!isAll) return scores;
  for (const [listId, { rankScore, rankTie, latestUs }] of entries)
    scores.set(listId, { rankScore, rankTie, latestUs });
  return scores;
};

/** The relevant lists, by board: an event is in one list of a board. */
const listsOf = ({ plan, player, event, starts }: ScoredPlayer): Map<Board, List> =>
  new Map(
    plan.boardIndex.forEvent(event.type).flatMap(({ board, scoreOf }) => {
      const list = findList(board, player, event.at);
      const entry = typeof list === "string" ? undefined : player.entries.get(list.id);
      const score = scoreOf(pastEvent(event));
      if (typeof list === "string" || !entry || score === undefined || board.operator === "SUM") return [];
      if (event.receivedMs < (starts.get(board.id) ?? -Infinity)) return [];
      return isFrom(board, entry, { rankScore: toRankScore(board, score), at: event.at })
        ? [[board, list] as const]
        : [];
    }),
  );

const isIn = (list: List, other: List | NoList): boolean => typeof other !== "string" && other.id === list.id;

type Other = { id: string; type: string; at: number; properties: RevertedEvent["properties"] };

type Adding = {
  entries: Map<string, EntryState>;
  lists: Map<Board, List>;
  other: Other;
  steps: StepBudget;
};

const addScores = (
  { plan, player, starts }: ScoredPlayer,
  { entries, lists, other, steps }: Adding,
): void => {
  for (const { board, scoreOf, steps: cost } of plan.boardIndex.forEvent(other.type)) {
    steps.spend(cost);
    // Ids are in order of arrival.
    const list = lists.get(board);
    if (!list || !isIn(list, findList(board, player, other.at))) continue;
    if (other.id < idFloor(starts.get(board.id) ?? 0)) continue;
    const score = scoreOf(pastEvent(other));
    if (score === undefined) continue;
    const operation = {
      operator: board.operator,
      rankScore: toRankScore(board, score),
      atUs: toUs(other.at),
    };
    const entry = nextEntry(board, entries.get(list.id), operation);
    if (entry) entries.set(list.id, entry);
  }
};
