import { type RawBuilder, sql } from "kysely";
import type { EventType } from "./domain-events.ts";

/** A feed that has not been read for this long is no longer written until it is read again. */
export const FEED_UNREAD_DAYS = 30;

const DAY_MS = 86_400_000;

/** Returns the moment since which a feed must have been read to be written. */
export const feedReadSince = (now: Date): Date => new Date(now.getTime() - FEED_UNREAD_DAYS * DAY_MS);

/** Subscriptions that cover a type which `*` does not. */
const patternsOf = (type: EventType): string[] => {
  const names = type.split(".");
  return [type, ...names.slice(1).map((_, n) => `${names.slice(0, n + 1).join(".")}.*`)];
};

/**
 * Whether a webhook subscribes to a type that `*` does not cover, or the project's feed is read; also for
 * transactions that see nothing of the tenant. Where it is false, nobody but rooms waits for such an event.
 */
export const isAwaited = (projectId: string, type: EventType, now: Date): RawBuilder<unknown> => sql`
  is_awaited(${projectId}::uuid, ${`{${patternsOf(type).join(",")}}`}::text[],
    ${feedReadSince(now).toISOString()}::timestamptz)`;
