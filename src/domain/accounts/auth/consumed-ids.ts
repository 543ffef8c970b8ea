import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/** What is valid once: `kind` separates the ids of different things. */
type OnceId = { kind: "captcha" | "passkey" | "mfa" | "saml"; id: string; expiresAt: Date };

/** Consumes an id; false if it was consumed before. Rows are deleted some time after they expire. */
export const consumeId = async ({ db }: Work, { kind, id, expiresAt }: OnceId): Promise<boolean> => {
  const { rows } = await sql`
    insert into consumed_ids (kind, id, expires_at)
    values (${kind}, ${id}, ${expiresAt.toISOString()}::timestamptz)
    on conflict do nothing returning 1`.execute(db);
  return rows.length === 1;
};
