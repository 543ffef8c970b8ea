import { sql } from "kysely";
import { DomainError } from "../errors.ts";
import { limitsOf } from "../tenants/plans.ts";
import type { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../work.ts";

/** Members that were accepted, and invitations that can still be. */
export const seatsTaken = async ({ db, now }: Work, tenantId: string): Promise<number> => {
  const { rows } = await sql<{ taken: number | string }>`
    select (select count(*) from users where tenant_id = ${tenantId}::uuid and status <> 'PENDING')
      + (select count(*) from invitations where tenant_id = ${tenantId}::uuid and status = 'PENDING'
        and expires_at > ${now.toISOString()}::timestamptz) as taken`.execute(db);
  return Number(rows[0]?.taken ?? 0);
};

/**
 * Makes sure that the plan has room for one more. The tenant must be locked until the commit.
 *
 * @throws PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
export const requireSeat = async (work: Work, tenant: Tenant): Promise<void> => {
  const { members } = limitsOf(tenant);
  if (members === null || (await seatsTaken(work, tenant.id)) < members) return;
  throw new DomainError(
    "PAYMENT_REQUIRED",
    `The plan ${tenant.plan} has room for ${members} members, pending invitations included; ` +
      "remove one or take a larger plan",
    { reason: "PLAN_LIMIT_EXCEEDED" },
  );
};
