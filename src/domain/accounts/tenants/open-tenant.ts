import type { Role } from "../../kernel/caller.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { User } from "../auth/user.ts";
import type { Plan } from "../../kernel/plans.ts";
import { Tenant } from "./tenant.ts";

/** Initial state of new tenants, from the configuration. */
export type TenantDefaults = { autoApproveTenants: boolean; defaultPlan: Plan };

export type NewUser = {
  email: string;
  name: string;
  passwordHash: string | null;
  emailVerified: boolean;
  role: Role;
  status: User["status"];
  profileCompleted?: boolean;
};

/** Creates a tenant and the OWNER who registered it. */
export const openTenant = async (
  work: Work,
  { autoApproveTenants, defaultPlan }: TenantDefaults,
  tenantName: string,
  owner: Omit<NewUser, "role" | "status">,
): Promise<{ tenant: Tenant; user: User }> => {
  const { em, now } = work;
  const tenant = em.create(Tenant, {
    id: newId(),
    name: tenantName,
    approvalStatus: autoApproveTenants ? "APPROVED" : "PENDING",
    approvalReason: null,
    approvalRequestedAt: null,
    plan: defaultPlan,
    planOverrides: {},
    redirectUris: [],
    secondFactorRequired: false,
    deleteAfter: null,
    deletedAt: null,
    createdAt: now,
    updatedAt: now,
  });
  // No relation makes the unit of work insert the tenant first.
  await em.flush();
  return { tenant, user: await addUser(work, tenant.id, { ...owner, role: "OWNER", status: "ACTIVE" }) };
};

/** Adds a user to a tenant. @throws UniqueConstraintViolationException for an address that is taken */
export const addUser = async ({ em, now }: Work, tenantId: string, user: NewUser): Promise<User> => {
  const created = em.create(User, {
    profileCompleted: true,
    ...user,
    id: newId(),
    tenantId,
    mfaEnabled: false,
    lastLoginAt: null,
    disabledAt: null,
    createdAt: now,
    updatedAt: now,
  });
  await em.flush();
  return created;
};
