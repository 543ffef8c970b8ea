import { z } from "zod";
import { capsOf } from "../caps/caps.ts";
import { CAUSES, USES_BOOSTS } from "../causes.ts";
import { grantXp as grant } from "../xp/xp.ts";
import { compileExpression, Expression, Rounding, ROUNDINGS } from "../language/expressions.ts";
import { actionFields, actionKind, causesOfChange } from "./action.ts";

/** Gives XP, or takes it away by a negative amount: never below 0. */
export const grantXp = actionKind({
  type: "grant_xp",
  summary: "Gives or takes XP",
  schema: z.strictObject({
    type: z.literal("grant_xp"),
    ...actionFields,
    amount: Expression,
    rounding: Rounding,
    boostable: z.boolean().default(true),
  }),
  causes: ({ amount }) => [...causesOfChange(amount, CAUSES.xp, CAUSES.xpLoss), ...USES_BOOSTS],
  compile: ({ amount: expression, rounding, boostable }) => {
    const amountOf = compileExpression(expression);
    const round = ROUNDINGS[rounding];
    return (turn) => {
      const amount = round(amountOf(turn));
      return amount === 0 ? undefined : { amount, boostable };
    };
  },
  perform: (turn, { amount, boostable }, { key, cause, reason, caps }) =>
    void grant(turn, { amount, boostable, cause, key, reason, caps: capsOf(turn, caps) }),
});
