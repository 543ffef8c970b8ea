import { z } from "zod";
import { SCORE, USES_BOOSTS } from "../causes.ts";
import { Key, mentionsAt } from "../language/syntax.ts";
import { isMeta } from "../boards/definition.ts";
import { submitScore as submit } from "../boards/submit.ts";
import { compileExpression, Expression } from "../language/expressions.ts";
import { actionFields, actionKind, compileValues, NamedValues } from "./action.ts";

/** Maximum fields of a score's meta. */
const META_MAX = 20;

/** Submits a score to a CUSTOM leaderboard. An inactive board is skipped with a warning. */
export const submitScore = actionKind({
  type: "submit_score",
  summary: "Submits a score to a CUSTOM leaderboard",
  schema: z.strictObject({
    type: z.literal("submit_score"),
    ...actionFields,
    leaderboardKey: Key,
    score: Expression,
    meta: NamedValues.refine(
      (given) => Object.keys(given).length <= META_MAX,
      `more than ${META_MAX} fields`,
    ).optional(),
  }),
  mentions: ({ leaderboardKey }) => mentionsAt("leaderboardKey", "leaderboard", leaderboardKey),
  causes: () => [SCORE, ...USES_BOOSTS],
  demands: ({ leaderboardKey }, find) => {
    const metric = find("leaderboard", leaderboardKey)?.["metric"] as { source: string } | undefined;
    if (!metric || metric.source === "CUSTOM") return [];
    return [["leaderboardKey", `${leaderboardKey}: a leaderboard of ${metric.source} takes no scores`]];
  },
  compile: ({ leaderboardKey, score: expression, meta }) => {
    const scoreOf = compileExpression(expression);
    const metaOf = meta && compileValues(meta);
    return (turn) => ({ leaderboardKey, score: scoreOf(turn), meta: metaOf?.(turn) });
  },
  perform: (turn, { leaderboardKey, score, meta }) => {
    const board = turn.project.boardsByKey.get(leaderboardKey);
    if (!board) return turn.warn(`leaderboard ${leaderboardKey} is not active: no score is submitted`);
    const fits = meta === undefined || isMeta(meta);
    if (!fits) turn.warn(`leaderboard ${leaderboardKey}: the meta is too large and left out`);
    const isRecorded = !turn.event.type.startsWith("system.");
    submit(turn, board, score, { isBoostable: true, isRecorded, meta: fits ? meta : undefined });
  },
});
