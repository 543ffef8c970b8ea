import { idFloor } from "../kernel/ids.ts";
import type { Board } from "../evaluation/boards/board.ts";
import type { List, NoList } from "../evaluation/boards/list.ts";
import { findList } from "../evaluation/boards/lists.ts";
import { isEnough } from "../evaluation/boards/record.ts";
import type { EntryState, PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { pastEvent } from "../evaluation/rule-event.ts";
import type { StepBudget } from "../kernel/step-budget.ts";
import { nextEntry, toRankScore, toUs } from "../evaluation/boards/scoring.ts";
import type { Work } from "../kernel/work.ts";
import { readHistory } from "./read-history.ts";
import type { OtherScores, RevertedEvent } from "./record.ts";
import { type BoardStarts, countsEvents, isFrom } from "./reverse-scores.ts";

type ScoredPlayer = { plan: ProjectPlan; player: PlayerState; event: RevertedEvent; starts: BoardStarts };

/** An entry as the player's events give it, with the reverted one and without. */
type Folded = { withEvent: EntryState | undefined; without: EntryState | undefined };

type Scoring = {
  board: Board;
  list: List;
  stored: EntryState;
  /** Of the events since the board was created, and of all: a backfill has counted earlier ones too. */
  since: Folded;
  all: Folded;
};

/**
 * Computes the scores of the player's other events, by list: of boards whose entry the reverted event may
 * have made by itself. Omits those that cannot be determined.
 */
export const readOtherScores = async (work: Work, whose: ScoredPlayer): Promise<Map<string, OtherScores>> => {
  const scorings = scoringsOf(whose);
  const scores = new Map<string, OtherScores>();
  if (scorings.size === 0) return scores;
  const { plan, player } = whose;
  const isAll = await readHistory(work, { projectId: plan.projectId, playerId: player.id }, (other, steps) =>
    addScores(whose, { scorings, other, steps }),
  );
  if (!isAll) return scores;
  for (const scoring of scorings.values()) {
    const known = otherOf(scoring);
    if (known !== undefined) scores.set(scoring.list.id, known);
  }
  return scores;
};

/** The entry without the event; null where there would be none, undefined where that is not known. */
const otherOf = ({ stored, since, all }: Scoring): OtherScores | undefined => {
  const explained = [since, all].filter(({ withEvent }) => withEvent?.rankScore === stored.rankScore);
  const [first, second] = explained.map(({ without }) => without);
  if (explained.length === 0 || (explained.length === 2 && first?.rankScore !== second?.rankScore))
    return undefined;
  return first ? { rankScore: first.rankScore, rankTie: first.rankTie, latestUs: first.latestUs } : null;
};

/** The relevant lists, by board: an event is in one list of a board. */
const scoringsOf = ({ plan, player, event, starts }: ScoredPlayer): Map<Board, Scoring> =>
  new Map(
    plan.boardIndex.forEvent(event.type).flatMap(({ board, scoreOf }) => {
      const list = findList(board, player, event.at);
      const stored = typeof list === "string" ? undefined : player.entries.get(list.id);
      const score = scoreOf(pastEvent(event));
      if (typeof list === "string" || !stored || score === undefined || countsEvents(board)) return [];
      if (event.receivedMs < (starts.get(board.id) ?? -Infinity)) return [];
      const scoring = { board, list, stored, since: nothing(), all: nothing() };
      return isFrom(board, stored, { rankScore: toRankScore(board, score), at: event.at })
        ? [[board, scoring] as const]
        : [];
    }),
  );

const nothing = (): Folded => ({ withEvent: undefined, without: undefined });

const isIn = (list: List, other: List | NoList): boolean => typeof other !== "string" && other.id === list.id;

type Other = { id: string; type: string; at: number; properties: RevertedEvent["properties"] };
type Adding = { scorings: ReadonlyMap<Board, Scoring>; other: Other; steps: StepBudget };

const addScores = (
  { plan, player, event, starts }: ScoredPlayer,
  { scorings, other, steps }: Adding,
): void => {
  for (const { board, scoreOf, steps: cost } of plan.boardIndex.forEvent(other.type)) {
    steps.spend(cost);
    const scoring = scorings.get(board);
    if (!scoring || !isIn(scoring.list, findList(board, player, other.at))) continue;
    const score = scoreOf(pastEvent(other));
    if (score === undefined) continue;
    const given = { rankScore: toRankScore(board, score), at: other.at, isReverted: other.id === event.id };
    add(board, scoring.all, given);
    // Ids are in order of arrival.
    if (other.id >= idFloor(starts.get(board.id) ?? 0)) add(board, scoring.since, given);
  }
};

type Given = { rankScore: number; at: number; isReverted: boolean };

const add = (board: Board, folded: Folded, { rankScore, at, isReverted }: Given): void => {
  const after = (old: EntryState | undefined): EntryState | undefined => {
    const next = nextEntry(board, old, { operator: board.operator, rankScore, atUs: toUs(at) });
    return !next || (!old && !isEnough(board, next.rankScore)) ? old : next;
  };
  folded.withEvent = after(folded.withEvent);
  if (!isReverted) folded.without = after(folded.without);
};
