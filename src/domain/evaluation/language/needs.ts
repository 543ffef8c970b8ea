import { kindOf as actionKindOf } from "../actions/action-kinds.ts";
import { kindOf as conditionKindOf } from "../conditions/condition-kinds.ts";
import type { Metric } from "../metrics/metric.ts";
import { conditionMetrics } from "./condition-metrics.ts";
import type { RuleDocument } from "./document.ts";
import { fieldMentions, type Mention } from "./mention.ts";
import { expressionMetrics } from "./metric-readings.ts";
import { PLAYER, referencesIn } from "./references.ts";
import { visitLeaves } from "./trees.ts";

/** Definitions that a rule reads or changes, besides the event and the player's own fields. */
export type RuleNeeds = {
  metrics: readonly Metric[];
  mentions: readonly Mention[];
};

/** Returns the currencies named by the references in a condition or an action. */
const referenceMentions = (value: object): Mention[] =>
  referencesIn(value)
    .filter(({ referent }) => referent.startsWith(PLAYER))
    .flatMap(({ path, referent }) => fieldMentions(path.join("."), referent.slice(PLAYER.length)));

const under = (path: string, mentions: readonly Mention[]): Mention[] =>
  mentions.map((mention) => ({ ...mention, path: `${path}.${mention.path}` }));

/** Returns everything that a rule names, with paths, for checks before it is published. */
export const needsOf = (rule: Pick<RuleDocument, "conditions" | "actions" | "metrics">): RuleNeeds => {
  const mentions: Mention[] = [];
  const look = (own: readonly Mention[] | undefined, value: object, path: string): void => {
    mentions.push(...under(path, [...(own ?? []), ...referenceMentions(value)]));
  };
  visitLeaves(
    rule.conditions,
    (leaf, path) => look(conditionKindOf(leaf.type)?.mentions(leaf), leaf, path),
    "conditions",
  );
  rule.actions.forEach((action, i) =>
    look(actionKindOf(action.type)?.mentions(action), action, `actions.${i}`),
  );
  return { metrics: [...conditionMetrics(rule.conditions), ...expressionMetrics(rule)], mentions };
};
