import { NOISY_TYPES, SENT_EVENT_TYPES } from "../../../kernel/events/event-types.ts";

const CUSTOM = "custom.";
const CUSTOM_PATTERN = /^custom\.(\*|[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}(\.\*)?)$/;
/** Names that rules may give to events that they emit. */
const CUSTOM_TYPE = /^custom\.[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$/;

/** Whether rules can emit events of the type. */
export const isCustomType = (type: string): boolean => CUSTOM_TYPE.test(type);

/** Every type of the service's own that webhooks can receive. */
export const WEBHOOK_TYPES: readonly string[] = [...SENT_EVENT_TYPES];

/** Whether events of the type go to webhooks and into the feed, if anybody subscribes. */
export const isWebhookType = (type: string): boolean => SENT_EVENT_TYPES.has(type) || type.startsWith(CUSTOM);

/**
 * Whether a subscription covers a type. A pattern is a type, `prefix.*` for those that begin with `prefix.`,
 * or `*` for all but NOISY_TYPES.
 */
export const isSubscribed = (patterns: readonly string[], type: string): boolean =>
  patterns.some((pattern) => {
    if (pattern === "*") return !NOISY_TYPES.has(type);
    return pattern.endsWith(".*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type;
  });

/** Types by name, by the beginning of the name and, if given, all that are not in `except`. */
export type Types = { names: string[]; prefixes: string[]; except?: string[] };

/** Returns the types that subscriptions cover, as `isSubscribed` decides. */
export const typesOf = (patterns: readonly string[]): Types => ({
  names: patterns.filter((pattern) => !pattern.endsWith("*")),
  prefixes: patterns.filter((pattern) => pattern.endsWith(".*")).map((pattern) => pattern.slice(0, -1)),
  ...(patterns.includes("*") ? { except: [...NOISY_TYPES] } : {}),
});

/** Whether a subscription may name it: an existing type, one of the integrator's own, or a group of them. */
export const isPattern = (pattern: string): boolean => {
  if (pattern === "*") return true;
  if (pattern.startsWith(CUSTOM)) return CUSTOM_PATTERN.test(pattern);
  if (pattern.endsWith(".*")) return WEBHOOK_TYPES.some((type) => type.startsWith(pattern.slice(0, -1)));
  return WEBHOOK_TYPES.includes(pattern);
};
