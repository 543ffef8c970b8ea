import { ARCHIVED_FACTOR } from "../../domain/economy/definitions/definitions.ts";
import { CAPS_MAX } from "../../domain/evaluation/caps/cap.ts";
import { PASSED_ON_MAX_BYTES } from "../../domain/evaluation/actions/values.ts";
import { ACTIONS_MAX, TRIGGERS_MAX } from "../../domain/evaluation/language/document.ts";
import { EXPRESSION_MAX_DEPTH, EXPRESSION_MAX_NODES } from "../../domain/evaluation/language/expressions.ts";
import { NAMED_METRICS_MAX } from "../../domain/evaluation/language/metric-readings.ts";
import { TREE_MAX_DEPTH, TREE_MAX_LEAVES } from "../../domain/evaluation/language/trees.ts";
import { ITEMS_MAX, TIERS_MAX as ADVENTURE_TIERS_MAX } from "../../domain/evaluation/adventures/adventure.ts";
import { PAUSES_MAX } from "../../domain/evaluation/pauses.ts";
import { STEPS_MAX } from "../../domain/evaluation/quests/quest.ts";
import { BUNDLE_DEPTH_MAX, BUNDLE_SIZE_MAX } from "../../domain/evaluation/rewards/reward-graph.ts";
import {
  COUNTERS_MAX,
  DEFINITION_MAX_BYTES,
  KEPT_MAX_BYTES,
  PLAYER_STATE_MAX_BYTES,
  PROJECT_MAX_BYTES,
  RULE_MAX_BYTES,
} from "../../domain/kernel/limits.ts";
import { REQUEST_BYTES_MAX } from "../../domain/progression/load-states.ts";
import { DEFINITION_KINDS } from "../../domain/registries/definition-kinds.ts";
import { ACTIVE_RULES_MAX } from "../../domain/rules/lifecycle/publishing.ts";
import { RULES_MAX, RULES_WITH_ARCHIVED_MAX } from "../../domain/rules/rules.ts";
import { type Limit, limit } from "./limit.ts";

/** Limits of rules and definitions, and of what they keep of players. */
export const DEFINITION_LIMITS: readonly Limit[] = [
  limit("rules", RULES_MAX, "items", "rules of a project that are not archived"),
  limit("rules.withArchived", RULES_WITH_ARCHIVED_MAX, "items", "rules of a project, with archived ones"),
  limit("rules.active", ACTIVE_RULES_MAX, "items", "rules of a project that are ACTIVE or in SHADOW"),
  limit("rule.triggers", TRIGGERS_MAX, "items", "triggers of a rule"),
  limit("rule.conditions", TREE_MAX_LEAVES, "items", "conditions of a rule, in all of its groups"),
  limit("rule.conditions.depth", TREE_MAX_DEPTH, "levels", "groups of conditions inside one another"),
  limit("rule.actions", ACTIONS_MAX, "items", "actions of a rule"),
  limit("rule.metrics", NAMED_METRICS_MAX, "items", "metrics that a rule names for its expressions"),
  limit("rule.caps", CAPS_MAX, "items", "caps of a rule, and of a project"),
  limit("rule.action.passed", PASSED_ON_MAX_BYTES, "bytes", "what an action passes on, as JSON"),
  limit("rule.expression.parts", EXPRESSION_MAX_NODES, "items", "parts of an expression"),
  limit("rule.expression.depth", EXPRESSION_MAX_DEPTH, "levels", "parts of an expression inside one another"),
  limit("rule.document", RULE_MAX_BYTES, "bytes", "a rule as JSON, with its defaults and the ids of actions"),
  limit("definition.document", DEFINITION_MAX_BYTES, "bytes", "a definition or leaderboard as JSON"),
  limit("quest.steps", STEPS_MAX, "items", "steps of a quest"),
  limit("definition.pauses", PAUSES_MAX, "items", "pauses of a quest or an adventure that reverts know"),
  limit("adventure.items", ITEMS_MAX, "items", "quests of an adventure"),
  limit("adventure.tiers", ADVENTURE_TIERS_MAX, "items", "tiers of an adventure"),
  limit("bundle.depth", BUNDLE_DEPTH_MAX, "levels", "bundles inside one another"),
  limit("bundle.bundles", BUNDLE_SIZE_MAX, "items", "bundles that one bundle gives, those inside it too"),
  limit(
    "project.definitions",
    PROJECT_MAX_BYTES,
    "bytes",
    "active rules, definitions and leaderboards of a project together, as JSON",
  ),
  limit(
    "project.kept",
    KEPT_MAX_BYTES,
    "bytes",
    "all that, paused rules and drafts together, as JSON: what an export has",
  ),
  limit(
    "project.counters",
    COUNTERS_MAX,
    "items",
    "different metrics that active rules, badges and segments of a project read together",
  ),
  limit(
    "player.state",
    PLAYER_STATE_MAX_BYTES,
    "bytes",
    "counters of a player, and what limits of rules have counted, together as JSON",
  ),
  limit(
    "player.states.changed",
    REQUEST_BYTES_MAX,
    "bytes",
    "of these, of all players whom a request changes",
  ),
  ...DEFINITION_KINDS.map(({ plural, max }) =>
    limit(`definition.${plural}`, max, "items", `${plural} of a project, without archived ones`),
  ),
  ...DEFINITION_KINDS.map(({ plural, max }) =>
    limit(
      `definition.${plural}.withArchived`,
      max * ARCHIVED_FACTOR,
      "items",
      `${plural} of a project, with archived ones`,
    ),
  ),
];
