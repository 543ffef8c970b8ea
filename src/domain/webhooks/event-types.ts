import { isReservedType } from "../events.ts";

/**
 * Types of the outbox that are nobody's but the server's own: they wake rooms and indexes, or are for one
 * player's screen.
 */
const INTERNAL: ReadonlySet<string> = new Set([
  "leaderboard.entries_changed",
  "lobby.changed",
  "chat.changed",
  "player.notice",
  "inbox.message",
]);

/** Too many for who just wants everything: `*` leaves them out, and they are to be named. */
export const NOISY_TYPES: ReadonlySet<string> = new Set([
  "chat.message_sent",
  "quest.progress",
  "lobby.member_joined",
  "lobby.member_left",
  "player.updated",
]);

const CUSTOM = "custom.";

/** Whether events of the type go to webhooks and into the feed, if anybody wants them. */
export const isWebhookType = (type: string): boolean =>
  !INTERNAL.has(type) && (isReservedType(type) || type.startsWith(CUSTOM));

/**
 * Whether a subscription covers a type. A pattern is a type, `prefix.*` for those that begin with `prefix.`,
 * or `*` for all but NOISY_TYPES.
 */
export const isSubscribed = (patterns: readonly string[], type: string): boolean =>
  patterns.some((pattern) => {
    if (pattern === "*") return !NOISY_TYPES.has(type);
    return pattern.endsWith(".*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type;
  });
