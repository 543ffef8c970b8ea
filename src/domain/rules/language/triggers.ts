import { DERIVED_EVENT_TYPES, RESERVED_EVENT_TYPES } from "../../events.ts";

/** Of the service's own events a rule can hear those that happen to a player; a prefix may name others. */
export const isHearable = (pattern: string): boolean =>
  !pattern.startsWith("system.") && (!RESERVED_EVENT_TYPES.has(pattern) || DERIVED_EVENT_TYPES.has(pattern));

/** Why a rule cannot hear a pattern. */
export const unheard = (pattern: string): string =>
  pattern.startsWith("system.")
    ? `${pattern} is for the service itself`
    : `rules on ${pattern} are not available yet`;
