import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/** Keys that one run marks; the rest wait for the next. Each is refused in any case from its time on. */
const EXPIRED_AT_ONCE_MAX = 10_000;

/** Marks keys whose time has passed as EXPIRED; those that somebody is changing wait for the next run. */
export const markExpiredKeys = async ({ db, now }: Work): Promise<void> => {
  const at = now.toISOString();
  await sql`
    update api_keys set status = 'EXPIRED', updated_at = ${at}::timestamptz
    where id in (
      select id from api_keys where status = 'ACTIVE' and expires_at <= ${at}::timestamptz
      limit ${EXPIRED_AT_ONCE_MAX} for update skip locked)`.execute(db);
};
