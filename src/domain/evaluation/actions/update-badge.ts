import { z } from "zod";
import { TIERS_MAX } from "../../kernel/limits.ts";
import { about, CAUSES } from "../causes.ts";
import { Key, mentionsAt } from "../language/syntax.ts";
import { awardBadge, type BadgeProblem, progressBadge, revokeBadge } from "../badges/award.ts";
import type { Turn } from "../turn.ts";
import { compileExpression, Expression } from "../language/expressions.ts";
import { actionFields, actionKind, type ActionRecord } from "./action.ts";

const schema = z
  .strictObject({
    type: z.literal("update_badge"),
    ...actionFields,
    badgeKey: Key,
    operation: z.enum(["AWARD", "PROGRESS", "REVOKE"]),
    tier: z.int().min(1).max(TIERS_MAX).optional(),
    amount: Expression.optional(),
  })
  .superRefine(({ operation, tier, amount }, context) => {
    const refuse = (field: string, message: string): void =>
      context.addIssue({ code: "custom", path: [field], message });
    if (operation === "PROGRESS" && amount === undefined) refuse("amount", "is required for PROGRESS");
    if (operation !== "PROGRESS" && amount !== undefined) refuse("amount", "is for PROGRESS only");
    if (operation !== "AWARD" && tier !== undefined) refuse("tier", "is for AWARD only");
  });

type Resolved = {
  badgeKey: string;
  operation: "AWARD" | "PROGRESS" | "REVOKE";
  tier?: number;
  amount?: number;
};

const change = (turn: Turn, { badgeKey, operation, tier, amount }: Resolved, record: ActionRecord) => {
  const { key, cause } = record;
  if (operation === "REVOKE") return revokeBadge(turn, { badgeKey, cause, key });
  if (operation === "PROGRESS") return progressBadge(turn, { badgeKey, amount: amount!, cause, key });
  return awardBadge(turn, { badgeKey, cause, key, ...(tier === undefined ? {} : { tier }) });
};

/** Awards a tier of a badge (never lowers it), adds progress, or revokes the badge. */
export const updateBadge = actionKind<typeof schema, Resolved>({
  type: "update_badge",
  summary: "Awards a badge, adds progress to it or revokes it",
  schema,
  mentions: ({ badgeKey }) => mentionsAt("badgeKey", "badge", badgeKey),
  causes: ({ badgeKey, operation }) =>
    about(operation === "REVOKE" ? CAUSES.badgeLoss : CAUSES.badge, badgeKey),
  demands: ({ badgeKey, tier }, find) => {
    const tiers = find("badge", badgeKey)?.["tiers"];
    if (tier === undefined || !Array.isArray(tiers) || tier <= tiers.length) return [];
    return [["tier", `the badge ${badgeKey} has ${tiers.length} tiers`]];
  },
  compile: ({ badgeKey, operation, tier, amount: expression }) => {
    if (operation !== "PROGRESS") {
      const resolved = { badgeKey, operation, ...(tier === undefined ? {} : { tier }) };
      return () => resolved;
    }
    const amountOf = compileExpression(expression!);
    return (turn) => {
      const amount = amountOf(turn);
      return amount === 0 ? undefined : { badgeKey, operation, amount };
    };
  },
  perform: (turn, resolved, record) => {
    const problem: BadgeProblem | undefined = change(turn, resolved, record);
    if (problem !== undefined) turn.warn(`update_badge ${record.actionId}: ${resolved.badgeKey}: ${problem}`);
  },
});
