import { z } from "zod";
import { entryAt, fromRankScore } from "../boards/lists.ts";
import type { Turn } from "../turn.ts";
import { compileComparison, expectedOf } from "../language/expressions.ts";
import { checkOperand, numericFields } from "../language/operators.ts";
import { Key, mentionsAt } from "../language/syntax.ts";
import { conditionKind, readsTimed } from "./condition.ts";

/**
 * Ranks need the rank index, which evaluation cannot access: it does no I/O, and counting the rows before a
 * player in the database costs more the longer the board is. The score is part of the player.
 */
const NOT_YET: readonly unknown[] = ["rank", "percentile", "league_tier", "PREVIOUS"];

const notYet =
  (fallback: string) =>
  ({ input }: { input?: unknown }): string => {
    // The default measure of the format is the rank.
    const given = input ?? "rank";
    return NOT_YET.includes(given) ? `${given as string} is not available yet` : fallback;
  };

const scoreOf = ({ project, player, event }: Turn, leaderboardKey: string): number | undefined => {
  const board = project.boardsByKey.get(leaderboardKey);
  const entry = board && entryAt(board, player, event);
  return board && entry ? fromRankScore(board, entry.rankScore) : undefined;
};

/** Compares the score in the period of the event's time, before this event counts; none without an entry. */
export const leaderboardRank = conditionKind({
  type: "leaderboard_rank",
  summary: "The player's standing on a leaderboard",
  schema: z
    .strictObject({
      type: z.literal("leaderboard_rank"),
      leaderboardKey: Key,
      period: z.literal("CURRENT", { error: notYet("must be CURRENT") }).default("CURRENT"),
      measure: z.literal("score", { error: notYet("must be score") }),
      ...numericFields,
    })
    .superRefine(checkOperand),
  mentions: ({ leaderboardKey }) => mentionsAt("leaderboardKey", "leaderboard", leaderboardKey),
  inputs: () => readsTimed("entries"),
  compile: (condition) => {
    const { leaderboardKey } = condition;
    const holds = compileComparison(condition);
    return (turn) => holds(scoreOf(turn, leaderboardKey), turn);
  },
  explain: (condition, turn) => ({
    expected: expectedOf(condition, turn),
    actual: scoreOf(turn, condition.leaderboardKey),
  }),
});
