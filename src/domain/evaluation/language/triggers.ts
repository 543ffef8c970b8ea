import { canTriggerRules } from "../../kernel/events/event-types.ts";

/** Of the service's own events rules can be triggered by those of a player; a prefix may match others. */
export const isTriggerable = canTriggerRules;

/** Returns why a pattern cannot trigger a rule. */
export const triggerProblem = (pattern: string): string =>
  pattern.startsWith("system.")
    ? `${pattern} is for the service itself`
    : `rules on ${pattern} are not available yet`;

/** The event that runs a scheduled rule for a player. */
export const SCHEDULE_TYPE = "system.schedule";
