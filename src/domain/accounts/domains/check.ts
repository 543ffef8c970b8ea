import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { lookAtDomain } from "./look.ts";
import { CLAIM_MS, TOGETHER, TOGETHER_OF_TENANT } from "./looks.ts";
import { lockDomain } from "./row.ts";
import { type CheckParts, lookAtHolder } from "./takeover.ts";
import { applySeen } from "./transition.ts";

/** Takes domains whose records are to be looked at; no other worker gets them meanwhile. */
const claimDue = async ({ db, serverNow }: Work): Promise<string[]> => {
  const [at, until] = [0, CLAIM_MS].map((ms) => new Date(serverNow.getTime() + ms).toISOString());
  const { rows } = await sql<{ id: string }>`
    update custom_domains set next_check_at = ${until}::timestamptz
    where id in (
      select id from custom_domains where id in (
        select id from (
          select id, next_check_at,
            row_number() over (partition by tenant_id order by next_check_at) as nth
          from custom_domains where next_check_at <= ${at}::timestamptz) due
        where nth <= ${TOGETHER_OF_TENANT} order by next_check_at limit ${TOGETHER})
      and next_check_at <= ${at}::timestamptz
      for update skip locked)
    returning id`.execute(db);
  return rows.map(({ id }) => id);
};

/** Whether some domain waits to be looked at. */
export const isCheckDue = (at: Date) =>
  sql`exists (select from custom_domains where next_check_at <= ${at.toISOString()}::timestamptz)`;

/** Looks at all domains that are due. May run several times at once, and twice for one domain. */
export const checkDueDomains = async (parts: CheckParts): Promise<void> => {
  for (;;) {
    const ids = await parts.transact(claimDue);
    if (ids.length === 0) return;
    await Promise.all(ids.map((id) => checkOne(parts, id)));
  }
};

/** Looks at the records of a domain, also one that is not due. Not to be called in a transaction. */
export const checkOne = async (parts: CheckParts, id: string): Promise<void> => {
  const domain = await parts.transact((work) => lockDomain(work, id));
  if (!domain) return;
  const seen = await lookAtDomain(parts.dns, domain, parts.ingress);
  await lookAtHolder(parts, domain, seen);
  try {
    await parts.transact((work) => applySeen(work, parts, { id, seen }));
  } catch (error) {
    if (!isTaken(error)) throw error;
    await parts.transact((work) => applySeen(work, parts, { id, seen, isTaken: true }));
  }
};

/** Whether another tenant holds the name; two that prove it at once meet in the index. */
const isTaken = (error: unknown): boolean => String(error).includes("custom_domains_held_key");
