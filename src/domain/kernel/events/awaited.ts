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
 * SQL: whether a webhook subscribes to a type that `*` does not cover, or the project's feed is read. Where
 * it is not, nobody but rooms waits for such an event. A transaction that does not see the project's tenant,
 * and so not its webhooks, finds that somebody may wait.
 */
export const isAwaited = (projectId: string, type: EventType, now: Date): RawBuilder<unknown> => sql`
  coalesce((
    select exists (
        select from webhook_feeds f where f.project_id = p.id
          and f.read_at > ${feedReadSince(now).toISOString()}::timestamptz)
      or exists (
        select from webhooks w
        where w.tenant_id = t.id and w.deleted_at is null and w.status <> 'DISABLED'
          and (w.project_id = p.id or (w.project_id is null and p.sandbox_of is null))
          and w.events && ${`{${patternsOf(type).join(",")}}`}::text[])
    from projects p join tenants t on t.id = p.tenant_id where p.id = ${projectId}), true)`;
