import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/**
 * Maximum keys marked by one run; the rest waits for the next. Each is rejected from its expiry on anyway.
 */
const EXPIRED_AT_ONCE_MAX = 10_000;

/** Marks expired keys as EXPIRED; those being changed concurrently wait for the next run. */
export const markExpiredKeys = async ({ db, now }: Work): Promise<void> => {
  const at = now.toISOString();
  await sql`
    update api_keys set status = 'EXPIRED', updated_at = ${at}::timestamptz
    where id in (
      select id from api_keys where status = 'ACTIVE' and expires_at <= ${at}::timestamptz
      limit ${EXPIRED_AT_ONCE_MAX} for update skip locked)`.execute(db);
};
