import { z } from "zod";
import { about, CAUSES } from "../causes.ts";
import { compileExpression, Expression } from "../language/expressions.ts";
import { Key, mentionsAt } from "../language/syntax.ts";
import type { QuestOrder } from "../turn.ts";
import { actionFields, actionKind } from "./action.ts";

const OPERATIONS = ["START", "ADVANCE", "COMPLETE", "FAIL", "RESET"] as const;

type Refuse = (field: string, message: string) => void;

const refuseOfAdventure = (
  { operation, stepKey }: { operation: string; stepKey: string | undefined },
  refuse: Refuse,
): void => {
  if (operation === "FAIL") refuse("operation", "FAIL is for quests: adventures do not fail");
  if (stepKey !== undefined) refuse("stepKey", "is for quests: adventures have no steps");
};

const schema = z
  .strictObject({
    type: z.literal("update_quest"),
    ...actionFields,
    entity: z.enum(["quest", "adventure"], { error: "must be quest or adventure" }).default("quest"),
    key: Key,
    operation: z
      .enum(OPERATIONS)
      .describe("Of an adventure START makes the player join, and ADVANCE adds points; FAIL is for quests"),
    stepKey: Key.optional(),
    amount: Expression.optional(),
  })
  .superRefine(({ entity, operation, stepKey, amount }, context) => {
    const refuse: Refuse = (field, message) => context.addIssue({ code: "custom", path: [field], message });
    if (entity === "adventure") refuseOfAdventure({ operation, stepKey }, refuse);
    else if (operation === "ADVANCE" && stepKey === undefined) refuse("stepKey", "is required for ADVANCE");
    if (operation !== "ADVANCE" && stepKey !== undefined) refuse("stepKey", "is for ADVANCE only");
    if (operation !== "ADVANCE" && amount !== undefined) refuse("amount", "is for ADVANCE only");
  });

/**
 * Starts a quest or adventure, advances a step of it or adds points, completes, fails or resets it; what is
 * refused is a warning.
 */
export const updateQuest = actionKind<typeof schema, QuestOrder>({
  type: "update_quest",
  summary: "Starts, advances, completes, fails or resets a quest or an adventure",
  schema,
  mentions: ({ entity, key }) => mentionsAt("key", entity, key),
  causes: ({ entity, key }) => about(CAUSES[entity], key),
  demands: ({ entity, key, stepKey }, find) => {
    const steps = entity === "quest" ? find("quest", key)?.["steps"] : undefined;
    if (stepKey === undefined || !Array.isArray(steps)) return [];
    const isThere = (steps as { key: string }[]).some((step) => step.key === stepKey);
    return isThere ? [] : [["stepKey", `the quest ${key} has no step ${stepKey}`]];
  },
  compile: ({ entity, key, operation, stepKey, amount: expression }) => {
    if (operation !== "ADVANCE") return () => ({ entity, key, operation });
    const amountOf = expression === undefined ? () => 1 : compileExpression(expression);
    return (turn) => {
      const amount = amountOf(turn);
      const step = stepKey === undefined ? {} : { stepKey };
      return amount === 0 ? undefined : { entity, key, operation, ...step, amount };
    };
  },
  perform: (turn, order, { cause, actionId }) => {
    const isAdventure = order.entity === "adventure";
    const problem = isAdventure ? turn.changeAdventure(order) : turn.changeQuest(order, cause);
    if (problem !== undefined) turn.warn(`update_quest ${actionId}: ${order.key}: ${problem}`);
  },
});
