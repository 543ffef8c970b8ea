import { z } from "zod";
import { grantXp as grant } from "../../progression/xp.ts";
import { compileExpression, Expression, Rounding, ROUNDINGS } from "../expressions.ts";
import { actionFields, actionKind, causeOf } from "./action.ts";

/** Gives XP. An amount below 0 counts as 0; a rule can never take XP away. */
export const grantXp = actionKind({
  type: "grant_xp",
  schema: z.strictObject({
    type: z.literal("grant_xp"),
    ...actionFields,
    amount: Expression.refine((amount) => typeof amount !== "number" || amount >= 0, "must not be negative"),
    rounding: Rounding,
  }),
  canFail: false,
  compile: (action, firing) => {
    const amountOf = compileExpression(action.amount);
    const round = ROUNDINGS[action.rounding];
    return (turn) => {
      const amount = round(amountOf(turn));
      if (amount < 0) turn.warn(`grant_xp ${firing.actionId}: the amount ${amount} is negative: 0 is used`);
      if (amount <= 0) return;
      const key = `evt:${turn.event.id}:r:${firing.ruleId}:${firing.actionId}`;
      grant(turn, { amount, cause: causeOf(turn, firing), key, reason: `rule:${firing.ruleKey}` });
    };
  },
});
