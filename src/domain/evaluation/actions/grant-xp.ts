import { z } from "zod";
import { CAUSES, USES_BOOSTS } from "../causes.ts";
import { grantXp as grant } from "../xp/xp.ts";
import { compileExpression, Expression, Rounding, ROUNDINGS } from "../language/expressions.ts";
import { actionFields, actionKind, grants } from "./action.ts";

/** Grants XP. A negative amount counts as 0; a rule can never remove XP. */
export const grantXp = actionKind({
  type: "grant_xp",
  summary: "Gives XP",
  schema: z.strictObject({
    type: z.literal("grant_xp"),
    ...actionFields,
    amount: Expression.refine((amount) => typeof amount !== "number" || amount >= 0, "must not be negative"),
    rounding: Rounding,
    boostable: z.boolean().default(true),
  }),
  mentions: () => [],
  causes: () => [...CAUSES.xp, ...USES_BOOSTS],
  outcomes: () => grants({ xp: 1 }),
  demands: () => [],
  canFail: () => false,
  compile: ({ amount: expression, rounding, boostable }, actionId) => {
    const amountOf = compileExpression(expression);
    const round = ROUNDINGS[rounding];
    return (turn) => {
      const amount = round(amountOf(turn));
      if (amount < 0) turn.warn(`grant_xp ${actionId}: the amount ${amount} is negative: 0 is used`);
      return amount > 0 ? { amount, boostable } : undefined;
    };
  },
  perform: (turn, { amount, boostable }, { key, cause, reason }) =>
    void grant(turn, { amount, boostable, cause, key, reason }),
});
