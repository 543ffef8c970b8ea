import { z } from "zod";
import { submitScore as submit } from "../../leaderboards/scoring.ts";
import { compileExpression, Expression } from "../language/expressions.ts";
import { Key } from "../language/syntax.ts";
import { actionFields, actionKind } from "./action.ts";

/**
 * Submits a score to a leaderboard that takes them. A board that is not active now is left alone, with a
 * warning.
 */
export const submitScore = actionKind({
  type: "submit_score",
  schema: z.strictObject({
    type: z.literal("submit_score"),
    ...actionFields,
    leaderboardKey: Key,
    score: Expression,
  }),
  canFail: () => false,
  compile: ({ leaderboardKey, score: expression }) => {
    const scoreOf = compileExpression(expression);
    return (turn) => ({ leaderboardKey, score: scoreOf(turn) });
  },
  perform: (turn, { leaderboardKey, score }) => {
    const board = turn.project.boardsByKey.get(leaderboardKey);
    if (board) submit(turn, board, score, { isBoostable: true });
    else turn.warn(`leaderboard ${leaderboardKey} is not active: no score is submitted`);
  },
});
