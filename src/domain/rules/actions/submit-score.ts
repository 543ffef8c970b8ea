import { z } from "zod";
import { submitScore as submit } from "../../leaderboards/scoring.ts";
import { compileExpression, Expression } from "../expressions.ts";
import { Key } from "../syntax.ts";
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
  canFail: false,
  compile: (action) => {
    const scoreOf = compileExpression(action.score);
    return (turn) => {
      const board = turn.project.boardsByKey.get(action.leaderboardKey);
      if (board) submit(turn, board, scoreOf(turn));
      else turn.warn(`leaderboard ${action.leaderboardKey} is not active: no score is submitted`);
    };
  },
});
