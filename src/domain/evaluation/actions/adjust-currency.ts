import { z } from "zod";
import { capsOf } from "../caps/caps.ts";
import { about, CAUSES, USES_BOOSTS } from "../causes.ts";
import { Key, mentionsAt } from "../language/syntax.ts";
import { adjustCurrency as adjust } from "../currencies/adjust.ts";
import { compileExpression, Expression, Rounding, ROUNDINGS } from "../language/expressions.ts";
import { RuleFailure } from "../running/outcome.ts";
import { actionFields, actionKind, causesOfChange, OnInsufficient } from "./action.ts";

/** Credits or debits a currency. `onInsufficient` decides when the balance, or the room, is insufficient. */
export const adjustCurrency = actionKind({
  type: "adjust_currency",
  summary: "Adds or removes a currency",
  schema: z.strictObject({
    type: z.literal("adjust_currency"),
    ...actionFields,
    currencyKey: Key,
    amount: Expression,
    rounding: Rounding,
    boostable: z.boolean().default(false),
    onInsufficient: OnInsufficient.default("FAIL_RULE"),
  }),
  mentions: ({ currencyKey }) => mentionsAt("currencyKey", "currency", currencyKey),
  causes: ({ amount, currencyKey }) => [
    ...about(causesOfChange(amount, CAUSES.gain, CAUSES.loss), currencyKey),
    ...USES_BOOSTS,
  ],
  canFail: ({ onInsufficient }) => onInsufficient === "FAIL_RULE",
  compile: ({ currencyKey, amount: expression, rounding, boostable, onInsufficient }) => {
    const amountOf = compileExpression(expression);
    const round = ROUNDINGS[rounding];
    return (turn) => {
      const amount = round(amountOf(turn));
      return amount === 0 ? undefined : { currencyKey, amount, boostable, onInsufficient };
    };
  },
  perform: (turn, { currencyKey, amount, boostable, onInsufficient }, record) => {
    const { key, cause, reason, actionId, caps } = record;
    const { problem } = adjust(turn, {
      currencyKey,
      amount,
      boostable,
      onInsufficient: onInsufficient === "CLAMP" ? "CLAMP" : "REFUSE",
      cause,
      key,
      reason,
      caps: capsOf(turn, caps),
    });
    if (problem === undefined) return;
    if (onInsufficient === "FAIL_RULE") throw new RuleFailure(actionId, `${problem} of ${currencyKey}`);
    turn.warn(`adjust_currency ${actionId}: ${problem} of ${currencyKey}: nothing is changed`);
  },
});
