import { z } from "zod";
import { CAUSES } from "../causes.ts";
import { adjustLives as adjust, type LivesChange, UNLIMITED_SECONDS_MAX } from "../lives/lives.ts";
import { compileExpression, Expression } from "../language/expressions.ts";
import { RuleFailure } from "../running/outcome.ts";
import { actionFields, actionKind, OnInsufficient } from "./action.ts";

const schema = z
  .strictObject({
    type: z.literal("adjust_lives"),
    ...actionFields,
    amount: Expression.optional(),
    refill: z.literal("FULL").optional(),
    unlimitedSeconds: z.int().min(1).max(UNLIMITED_SECONDS_MAX).optional(),
    onInsufficient: OnInsufficient.default("CLAMP"),
  })
  .refine(
    ({ amount, refill, unlimitedSeconds }) =>
      [amount, refill, unlimitedSeconds].filter((given) => given !== undefined).length === 1,
    { path: ["amount"], message: "give exactly one of amount, refill and unlimitedSeconds" },
  );

type Resolved = Pick<LivesChange, "amount" | "refill" | "unlimitedSeconds"> & {
  onInsufficient: OnInsufficient;
};

/** Adds or removes lives, refills them, or makes them unlimited for a time. */
export const adjustLives = actionKind<typeof schema, Resolved>({
  type: "adjust_lives",
  summary: "Adds, removes or refills lives, or makes them unlimited for a time",
  schema,
  causes: () => CAUSES.lives,
  canFail: ({ onInsufficient }) => onInsufficient === "FAIL_RULE",
  compile: ({ amount: expression, refill, unlimitedSeconds, onInsufficient }) => {
    if (refill !== undefined) return () => ({ refill, onInsufficient });
    if (unlimitedSeconds !== undefined) return () => ({ unlimitedSeconds, onInsufficient });
    const amountOf = compileExpression(expression!);
    return (turn) => {
      const amount = Math.floor(amountOf(turn));
      return amount === 0 ? undefined : { amount, onInsufficient };
    };
  },
  perform: (turn, { onInsufficient, ...change }, { key, cause, reason, actionId }) => {
    const whenShort = onInsufficient === "CLAMP" ? "CLAMP" : "REFUSE";
    const { problem } = adjust(turn, { ...change, onInsufficient: whenShort, cause, key, reason });
    if (problem === undefined) return;
    if (onInsufficient === "FAIL_RULE") throw new RuleFailure(actionId, problem);
    turn.warn(`adjust_lives ${actionId}: ${problem}: nothing is changed`);
  },
});
