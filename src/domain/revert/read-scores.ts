import { idFloor } from "../kernel/ids.ts";
import type { Board } from "../evaluation/boards/board.ts";
import type { List } from "../evaluation/boards/list.ts";
import { findList } from "../evaluation/boards/lists.ts";
import { isEnough } from "../evaluation/boards/record.ts";
import type { EntryState, PlayerState } from "../evaluation/player-state.ts";
import type { ProjectPlan } from "../evaluation/project-plan.ts";
import { pastEvent } from "../evaluation/rule-event.ts";
import type { StepBudget } from "../kernel/step-budget.ts";
import { nextEntry, toRankScore, toUs } from "../evaluation/boards/scoring.ts";
import type { HistoryEvent } from "../rules/insight/history.ts";
import type { HistoryVisitor } from "./read-history.ts";
import type { OtherScores, RevertedEvent } from "./record.ts";
import { type BoardStarts, clamp, countsEvents, isFrom } from "./reverse-scores.ts";

type ScoredPlayer = {
  plan: ProjectPlan;
  player: PlayerState;
  /** The player's events that are reverted together, in the order in which that is done. */
  events: readonly RevertedEvent[];
  starts: BoardStarts;
};

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

/** Adds up the scores of a player's other events. */
export type OtherScoring = HistoryVisitor & {
  /** To be called after the last event. */
  result(): Map<string, OtherScores>;
};

/**
 * Opens the computation of the scores of the player's other events, by list: of boards whose entry the
 * reverted events may have made by themselves; undefined where there is none. Omits those that cannot be
 * determined.
 */
export const openOtherScores = (whose: ScoredPlayer): OtherScoring | undefined => {
  const scorings = scoringsOf(whose);
  if (scorings.size === 0) return undefined;
  const reverted = new Set(whose.events.map(({ id }) => id));
  return {
    visit: (other, steps) => addScores(whose, { scorings, other, reverted, steps }),
    result: () => {
      const scores = new Map<string, OtherScores>();
      for (const [listId, scoring] of scorings) {
        const known = otherOf(scoring);
        if (known !== undefined) scores.set(listId, known);
      }
      return scores;
    },
  };
};

/** The entry without the event; null where there would be none, undefined where that is not known. */
const otherOf = ({ stored, since, all }: Scoring): OtherScores | undefined => {
  const explained = [since, all].filter(({ withEvent }) => withEvent?.rankScore === stored.rankScore);
  const [first, second] = explained.map(({ without }) => without);
  if (explained.length === 0 || (explained.length === 2 && first?.rankScore !== second?.rankScore))
    return undefined;
  return first ? { rankScore: first.rankScore, rankTie: first.rankTie, latestUs: first.latestUs } : null;
};

/** The relevant lists, by id. */
const scoringsOf = (whose: ScoredPlayer): Map<string, Scoring> => {
  const scorings = new Map<string, Scoring>();
  const rest = new Map<string, number>();
  for (const event of whose.events) {
    for (const { board, scoreOf } of whose.plan.boardIndex.forEvent(event.type)) {
      const score = scoreOf(pastEvent(event));
      const scored = score === undefined ? undefined : scoredOn(whose, board, event);
      if (score === undefined || !scored) continue;
      const { list, stored } = scored;
      const entry = { ...stored, rankScore: rest.get(list.id) ?? stored.rankScore };
      const rankScore = toRankScore(board, score);
      if (board.operator === "SUM") rest.set(list.id, clamp(entry.rankScore - rankScore));
      if (!scorings.has(list.id) && isFrom(board, entry, { rankScore, at: event.at }))
        scorings.set(list.id, { board, list, stored, since: nothing(), all: nothing() });
    }
  }
  return scorings;
};

/** The list on which an event has counted, with the player's entry; undefined where that does not matter. */
const scoredOn = (
  { player, starts }: ScoredPlayer,
  board: Board,
  event: RevertedEvent,
): { list: List; stored: EntryState } | undefined => {
  if (countsEvents(board) || event.receivedMs < (starts.get(board.id) ?? -Infinity)) return undefined;
  const list = findList(board, player, event);
  const stored = typeof list === "string" ? undefined : player.entries.get(list.id);
  return typeof list === "string" || !stored ? undefined : { list, stored };
};

const nothing = (): Folded => ({ withEvent: undefined, without: undefined });

type Adding = {
  scorings: ReadonlyMap<string, Scoring>;
  other: HistoryEvent;
  /** Ids of the reverted events. */
  reverted: ReadonlySet<string>;
  steps: StepBudget;
};

const addScores = (
  { plan, player, starts }: ScoredPlayer,
  { scorings, other, reverted, steps }: Adding,
): void => {
  for (const { board, scoreOf, steps: cost } of plan.boardIndex.forEvent(other.type)) {
    steps.spend(cost);
    const list = findList(board, player, other);
    const scoring = typeof list === "string" ? undefined : scorings.get(list.id);
    const score = scoring && scoreOf(pastEvent(other));
    if (!scoring || score === undefined) continue;
    const given = { rankScore: toRankScore(board, score), at: other.at, isReverted: reverted.has(other.id) };
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
