import { sql } from "kysely";
import { limitsOf, planLimitExceeded } from "../../kernel/plans.ts";
import type { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";

/** Whether users who have asked to join count as well. */
type Counted = { withWaiting: boolean };

/** Counts accepted members, and invitations that can still be accepted. */
export const seatsTaken = async (
  { db, now }: Work,
  tenantId: string,
  { withWaiting }: Counted = { withWaiting: false },
): Promise<number> => {
  const { rows } = await sql<{ taken: number | string }>`
    select (select count(*) from users
        where tenant_id = ${tenantId}::uuid and (${withWaiting} or status <> 'PENDING'))
      + (select count(*) from invitations where tenant_id = ${tenantId}::uuid and status = 'PENDING'
        and expires_at > ${now.toISOString()}::timestamptz) as taken`.execute(db);
  return Number(rows[0]?.taken ?? 0);
};

/**
 * Checks that the plan has room for one more. The tenant must be locked until the commit.
 *
 * @throws PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
export const requireSeat = async (work: Work, tenant: Tenant, counted?: Counted): Promise<void> => {
  const { members } = limitsOf(tenant);
  if (members === null || (await seatsTaken(work, tenant.id, counted)) < members) return;
  throw planLimitExceeded(
    `The plan ${tenant.plan} has room for ${members} members, pending invitations included; ` +
      "remove one or choose a larger plan",
  );
};
