import { canTriggerRules } from "../../kernel/events/event-types.ts";

/** Of the service's own events a rule can hear those that happen to a player; a prefix may name others. */
export const isHearable = canTriggerRules;

/** Why a rule cannot hear a pattern. */
export const unheard = (pattern: string): string =>
  pattern.startsWith("system.")
    ? `${pattern} is for the service itself`
    : `rules on ${pattern} are not available yet`;

/** The event by which a scheduled rule comes to a player. */
export const SCHEDULE_TYPE = "system.schedule";
