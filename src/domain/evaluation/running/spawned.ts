import { RuleFailure } from "./failures.ts";
import { causeOf, type Deed, keyOf, reasonOf } from "../actions/action.ts";
import { kindOf } from "../actions/action-kinds.ts";
import type { SentAction } from "../actions/send.ts";
import type { Turn } from "../turn.ts";

/** Event types that the service sends to itself: another player's turn, and a later one. */
export const SPAWNED_TYPES: ReadonlySet<string> = new Set(["system.grant", "system.delayed_action"]);

/** The events that the service itself stores; nobody else can send one of these types. */
const sentOf = ({ event }: Turn): SentAction => event.properties as SentAction;

const deedOf = (turn: Turn, { rule, rootEventId, firing }: SentAction): Deed => {
  const kind = turn.event.type === "system.grant" ? "tgt" : "dly";
  return {
    key: keyOf(`${kind}:${rootEventId}`, rule, firing),
    cause: causeOf(turn, rule, rootEventId),
    reason: reasonOf(rule),
    actionId: rule.actionId,
  };
};

/**
 * Does the action that a `system.grant` or `system.delayed_action` event carries, as it was resolved when the
 * rule fired. Neither conditions nor limits are asked again.
 * @returns a sentence when it cannot be done; then nothing has changed
 */
export const runSpawned = (turn: Turn): string | undefined => {
  const sent = sentOf(turn);
  const { type, ...resolved } = sent.action;
  const kind = kindOf(type);
  if (!kind) return `there is no action ${type}`;
  const { ruleId, ruleKey } = sent.rule;
  turn.root.acting = { ruleId, ruleKey };
  try {
    kind.perform(turn, resolved, deedOf(turn, sent));
    return undefined;
  } catch (error) {
    if (!(error instanceof RuleFailure)) throw error;
    return `${error.actionId}: ${error.message}`;
  } finally {
    turn.root.acting = undefined;
  }
};
