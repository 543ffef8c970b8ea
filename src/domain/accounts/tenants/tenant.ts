import { z } from "zod";
import { defineEntity, p } from "@mikro-orm/core";
import { sql } from "kysely";
import { User } from "../auth/user.ts";
import type { ApprovalStatus, Plan, PlanLimits, Role } from "../../kernel/caller.ts";
import { notFound } from "../../kernel/errors.ts";
import { isId, newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

export const NAME_MIN = 2;
export const NAME_MAX = 255;

const TOO_SHORT = `must have at least ${NAME_MIN} characters`;

/**
 * A name of 2 to 255 characters on one line; outer blanks are removed. Counted in code points, as in
 * PostgreSQL.
 */
export const Name = z
  .string()
  .trim()
  .min(NAME_MIN, { abort: true, error: TOO_SHORT })
  .max(NAME_MAX, `must have at most ${NAME_MAX} characters`)
  .refine((name) => [...name].length >= NAME_MIN, TOO_SHORT)
  .refine((name) => !/\p{Cc}/u.test(name), "must not contain control characters");

const TenantSchema = defineEntity({
  name: "Tenant",
  tableName: "tenants",
  properties: {
    id: p.uuid().primary(),
    name: p.text(),
    approvalStatus: p.text().$type<ApprovalStatus>(),
    /** The reason of a rejection or suspension. */
    approvalReason: p.text().nullable(),
    approvalRequestedAt: p.datetime(3).nullable(),
    plan: p.text().$type<Plan>(),
    /** Limits set by a super-admin besides the plan's. */
    planOverrides: p.json<Partial<PlanLimits>>(),
    /** The exact redirect URIs that OAuth may use. */
    redirectUris: p.array(),
    /** The custom domain that links with tokens in its mails lead to while it is ACTIVE. */
    linkDomain: p.text().nullable(),
    /** Members without a second factor may do nothing but set one up. */
    secondFactorRequired: p.boolean(),
    /** Set when the OWNER deleted it: from then on all its requests are rejected. */
    deleteAfter: p.datetime(3).nullable(),
    deletedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});

/** The customer account: owns users and projects. */
export class Tenant extends TenantSchema.class {}

TenantSchema.setClass(Tenant);

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

/** @throws NOT_FOUND also when it has been deleted */
export const getTenant = async ({ em }: Work, tenantId: string): Promise<Tenant> => {
  const tenant = await em.findOne(Tenant, { id: tenantId, deletedAt: null });
  if (!tenant) throw notFound("Tenant");
  return tenant;
};

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
