import { canTriggerRules, isReservedType } from "../../kernel/events/event-types.ts";

/** Of the service's own events rules can be triggered by those of a player; a prefix may match others. */
export const isTriggerable = canTriggerRules;

/** Returns why a pattern cannot trigger a rule. */
export const triggerProblem = (pattern: string): string =>
  pattern.startsWith("system.")
    ? `${pattern} is for the service itself`
    : `rules on ${pattern} are not available yet`;

/** The event that runs a scheduled rule for a player. */
export const SCHEDULE_TYPE = "system.schedule";

/**
 * Matching of event types by listeners: exact types, prefixes and the star, as used by rules, metrics and
 * boards.
 */

/**
 * Returns the patterns that match a type: itself, `a.*` and `a.b.*` of `a.b.c`, and `*` for a custom event.
 */
export const patternsOf = (eventType: string): string[] => {
  const patterns = [eventType];
  for (let dot = eventType.indexOf("."); dot !== -1; dot = eventType.indexOf(".", dot + 1)) {
    patterns.push(`${eventType.slice(0, dot)}.*`);
  }
  return isReservedType(eventType) ? patterns : [...patterns, "*"];
};

/** Maximum event types whose listeners are cached; integrators may send any number of types. */
const TYPES_REMEMBERED_MAX = 2_000;

/**
 * Creates an index of the listeners of event types.
 * @param listeners in the order in which they are passed to `make`
 * @param make builds the cached value from the listeners of one type
 */
export const createTypeIndex = <L extends { patterns: readonly string[] }, T>(
  listeners: readonly L[],
  make: (found: readonly L[]) => T,
): ((eventType: string) => T) => {
  const byPattern = new Map<string, number[]>();
  listeners.forEach(({ patterns }, place) => {
    for (const pattern of new Set(patterns)) {
      const places = byPattern.get(pattern);
      if (places) places.push(place);
      else byPattern.set(pattern, [place]);
    }
  });
  const known = new Map<string, T>();
  const nothing = make([]);
  return (eventType) => {
    const found = known.get(eventType);
    if (found !== undefined) return found;
    const places = new Set(patternsOf(eventType).flatMap((pattern) => byPattern.get(pattern) ?? []));
    const inOrder = [...places].toSorted((a, b) => a - b).map((place) => listeners[place]!);
    const made = inOrder.length === 0 ? nothing : make(inOrder);
    if (known.size >= TYPES_REMEMBERED_MAX) known.delete(known.keys().next().value!);
    known.set(eventType, made);
    return made;
  };
};
