import { RuleFailure } from "./outcome.ts";
import { type ActionRecord, causeOf, keyOf, reasonOf, type SentAction } from "../actions/action.ts";
import { kindOf } from "../actions/action-kinds.ts";
import type { Turn } from "../turn.ts";

/** Event types that the service sends to itself: for another player, and for a later time. */
export const SPAWNED_TYPES: ReadonlySet<string> = new Set(["system.grant", "system.delayed_action"]);

/** Events that the service itself stores; these types are reserved. */
const sentOf = ({ event }: Turn): SentAction => event.properties as SentAction;

const recordOf = (turn: Turn, { rule, rootEventId, firing }: SentAction): ActionRecord => {
  const kind = turn.event.type === "system.grant" ? "tgt" : "dly";
  return {
    key: keyOf(`${kind}:${rootEventId}`, rule, firing),
    cause: causeOf(turn, rule, rootEventId),
    reason: reasonOf(rule),
    actionId: rule.actionId,
    caps: rule.caps,
  };
};

/**
 * Performs the action that a `system.grant` or `system.delayed_action` event carries, as resolved when the
 * rule fired. Neither conditions nor limits are checked again.
 * @returns a message when it cannot be performed; then nothing has changed
 */
export const runSpawned = (turn: Turn): string | undefined => {
  const sent = sentOf(turn);
  const { type, ...resolved } = sent.action;
  const kind = kindOf(type);
  if (!kind) return `there is no action ${type}`;
  const { ruleId, ruleKey } = sent.rule;
  turn.root.acting = { ruleId, ruleKey };
  try {
    kind.perform(turn, resolved, recordOf(turn, sent));
    return undefined;
  } catch (error) {
    if (!(error instanceof RuleFailure)) throw error;
    return `${error.actionId}: ${error.message}`;
  } finally {
    turn.root.acting = undefined;
  }
};
