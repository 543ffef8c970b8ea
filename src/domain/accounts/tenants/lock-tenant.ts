import { sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { Tenant } from "./tenant.ts";

/**
 * Locks the tenant until the commit; operations that only refer to it are not blocked.
 *
 * @throws NOT_FOUND also when it has been deleted
 */
export const lockTenant = async ({ em, db }: Work, tenantId: string): Promise<Tenant> => {
  if (!isId(tenantId)) throw notFound("Tenant");
  await sql`select 1 from tenants where id = ${tenantId}::uuid for no key update`.execute(db);
  const tenant = await em.findOne(Tenant, { id: tenantId, deletedAt: null }, { refresh: true });
  if (!tenant) throw notFound("Tenant");
  return tenant;
};
