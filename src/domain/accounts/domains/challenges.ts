import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/** How long challenges are answered, in ms. */
const CHALLENGE_MS = 3_600_000;

/** Makes every web process answer a challenge of the certificate authority. */
export const publishChallenge = async (
  work: Work,
  domainId: string,
  { token, answer }: { token: string; answer: string },
): Promise<void> => {
  const until = new Date(work.serverNow.getTime() + CHALLENGE_MS).toISOString();
  await sql`
    insert into acme_challenges (token, domain_id, answer, expires_at)
    values (${token}, ${domainId}::uuid, ${answer}, ${until}::timestamptz)
    on conflict (token) do nothing`.execute(work.db);
};

/** Returns what a challenge of the certificate authority is answered with; undefined for an unknown one. */
export const readChallenge = async ({ db, serverNow }: Work, token: string): Promise<string | undefined> => {
  const { rows } = await sql<{ answer: string }>`
    select answer from acme_challenges
    where token = ${token} and expires_at > ${serverNow.toISOString()}::timestamptz`.execute(db);
  return rows[0]?.answer;
};
