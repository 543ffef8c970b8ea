import { z } from "zod";
import { about, CAUSES } from "../causes.ts";
import { compileExpression, Expression } from "../language/expressions.ts";
import { mentionsAt } from "../language/mention.ts";
import { Key } from "../language/syntax.ts";
import type { QuestOrder } from "../turn.ts";
import { actionFields, actionKind } from "./action.ts";

const OPERATIONS = ["START", "ADVANCE", "COMPLETE", "FAIL", "RESET"] as const;

const schema = z
  .strictObject({
    type: z.literal("update_quest"),
    ...actionFields,
    entity: z
      .literal("quest", {
        error: ({ input }) => (input === "adventure" ? "adventure is not available yet" : "must be quest"),
      })
      .default("quest"),
    key: Key,
    operation: z.enum(OPERATIONS),
    stepKey: Key.optional(),
    amount: Expression.optional(),
  })
  .superRefine(({ operation, stepKey, amount }, context) => {
    const refuse = (field: string, message: string): void =>
      context.addIssue({ code: "custom", path: [field], message });
    if (operation === "ADVANCE" && stepKey === undefined) refuse("stepKey", "is required for ADVANCE");
    if (operation !== "ADVANCE" && stepKey !== undefined) refuse("stepKey", "is for ADVANCE only");
    if (operation !== "ADVANCE" && amount !== undefined) refuse("amount", "is for ADVANCE only");
  });

/** Starts a quest, advances a step of it, completes, fails or resets it; what is refused is a warning. */
export const updateQuest = actionKind<typeof schema, QuestOrder>({
  type: "update_quest",
  summary: "Starts, advances, completes, fails or resets a quest; adventures are not available yet",
  schema,
  mentions: ({ key }) => mentionsAt("key", "quest", key),
  causes: ({ key }) => about(CAUSES.quest, key),
  outcomes: ({ key }) => ({ types: CAUSES.quest, bundles: [], quests: [key] }),
  demands: ({ key, stepKey }, find) => {
    const steps = find("quest", key)?.["steps"];
    if (stepKey === undefined || !Array.isArray(steps)) return [];
    const isThere = (steps as { key: string }[]).some((step) => step.key === stepKey);
    return isThere ? [] : [["stepKey", `the quest ${key} has no step ${stepKey}`]];
  },
  canFail: () => false,
  compile: ({ key, operation, stepKey, amount: expression }) => {
    if (operation !== "ADVANCE") return () => ({ key, operation });
    const amountOf = expression === undefined ? () => 1 : compileExpression(expression);
    return (turn) => {
      const amount = amountOf(turn);
      return amount === 0 ? undefined : { key, operation, stepKey: stepKey!, amount };
    };
  },
  perform: (turn, order, { cause, actionId }) => {
    const problem = turn.changeQuest(order, cause);
    if (problem !== undefined) turn.warn(`update_quest ${actionId}: ${order.key}: ${problem}`);
  },
});
