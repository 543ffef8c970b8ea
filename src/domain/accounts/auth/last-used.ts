import { sql } from "kysely";
import type { Transact } from "../../kernel/work.ts";

/** Precision of `lastUsedAt` of sessions, API keys and tokens. */
const LAST_USED_STEP_MS = 60_000;

/** Returns whether a use must be recorded; `lastUsedAt` is null for what was never used. */
export const isUseDue = (lastUsedAt: Date | string | null | undefined, now: Date): boolean =>
  lastUsedAt == null || now.getTime() - new Date(lastUsedAt).getTime() >= LAST_USED_STEP_MS;

/** Records a use. Not awaited: no request waits for it, and losing it costs a minute of precision. */
export const noteUse = (
  transact: Transact,
  table: "sessions" | "api_keys" | "platform_tokens" | "scim_tokens",
  id: string,
): void => {
  transact(({ db, now }) => {
    const due = new Date(now.getTime() - LAST_USED_STEP_MS).toISOString();
    return sql`
      update ${sql.ref(table)} set last_used_at = ${now.toISOString()}::timestamptz
      where id = ${id}::uuid
        and (last_used_at is null or last_used_at <= ${due}::timestamptz)`.execute(db);
  }).catch(() => undefined);
};
