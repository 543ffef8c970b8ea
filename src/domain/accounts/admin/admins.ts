import { audit } from "../audit/audit.ts";
import { forgetOrigins } from "../auth/known-origins.ts";
import { type Passwords, refuseWeakPassword } from "../auth/passwords.ts";
import { normaliseEmail } from "../email/address.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { forgetAdmins } from "./authenticate.ts";
import { PlatformAdmin } from "./platform-admin.ts";

export type AdminParts = { transact: Transact; passwords: Passwords };
export type NewAdmin = { email: string; name: string; password: string };

/** A super-admin as returned by the API. */
export type ShownAdmin = {
  id: string;
  email: string;
  name: string;
  mfaEnabled: boolean;
  lastLoginAt: string | null;
  disabledAt: string | null;
  createdAt: string;
};

export const showAdmin = (admin: PlatformAdmin): ShownAdmin => ({
  id: admin.id,
  email: admin.email,
  name: admin.name,
  mfaEnabled: admin.mfaEnabled,
  lastLoginAt: admin.lastLoginAt?.toISOString() ?? null,
  disabledAt: admin.disabledAt?.toISOString() ?? null,
  createdAt: admin.createdAt.toISOString(),
});

/** @throws VALIDATION_ERROR PASSWORD_TOO_WEAK, CONFLICT EMAIL_ALREADY_EXISTS */
export const createAdmin = async (
  { transact, passwords }: AdminParts,
  { password, name, ...rest }: NewAdmin,
): Promise<PlatformAdmin> => {
  const email = normaliseEmail(rest.email);
  refuseWeakPassword(password, { email, name });
  const passwordHash = await passwords.hash(password);
  return transact(async (work) => {
    const { em, now } = work;
    if (await em.findOne(PlatformAdmin, { email })) {
      throw conflict("EMAIL_ALREADY_EXISTS", `A super-admin with the address ${email} exists already`);
    }
    const admin = em.create(PlatformAdmin, {
      id: newId(),
      email,
      name,
      passwordHash,
      mfaEnabled: false,
      sessionVersion: 1,
      disabledAt: null,
      lastLoginAt: null,
      createdAt: now,
      updatedAt: now,
    });
    await em.flush();
    await auditAdmin(work, "platform_admin.created", admin);
    return admin;
  });
};

/** Returns all super-admins, oldest first. */
export const listAdmins = ({ em }: Work): Promise<PlatformAdmin[]> =>
  em.find(PlatformAdmin, {}, { orderBy: { createdAt: "asc", id: "asc" } });

/** @throws NOT_FOUND also for a disabled one */
export const getAdmin = async ({ em }: Work, id: string): Promise<PlatformAdmin> => {
  const admin = await em.findOne(PlatformAdmin, { id, disabledAt: null });
  if (!admin) throw notFound("Super-admin");
  return admin;
};

/** @throws NOT_FOUND */
export const findAdminByEmail = async ({ em }: Work, address: string): Promise<PlatformAdmin> => {
  const admin = await em.findOne(PlatformAdmin, { email: normaliseEmail(address) });
  if (!admin) throw notFound(`Super-admin ${normaliseEmail(address)}`);
  return admin;
};

/** Ends all logins of a super-admin. */
export const endLogins = (work: Work, admin: PlatformAdmin): void => {
  admin.sessionVersion += 1;
  admin.updatedAt = work.now;
  work.afterCommit(forgetAdmins);
};

/** Disables a super-admin; idempotent. @throws NOT_FOUND */
export const disableAdmin = async (work: Work, email: string): Promise<PlatformAdmin> => {
  const admin = await findAdminByEmail(work, email);
  if (admin.disabledAt) return admin;
  admin.disabledAt = work.now;
  endLogins(work, admin);
  await auditAdmin(work, "platform_admin.disabled", admin);
  return admin;
};

/** Enables a disabled super-admin again, with the previous password. @throws NOT_FOUND */
export const enableAdmin = async (work: Work, email: string): Promise<PlatformAdmin> => {
  const admin = await findAdminByEmail(work, email);
  if (!admin.disabledAt) return admin;
  admin.disabledAt = null;
  admin.updatedAt = work.now;
  await auditAdmin(work, "platform_admin.enabled", admin);
  return admin;
};

/** Sets a new password and ends all logins; a disabled super-admin stays disabled. @throws NOT_FOUND */
export const resetAdminPassword = async (
  work: Work,
  email: string,
  passwordHash: string,
): Promise<PlatformAdmin> => {
  const admin = await findAdminByEmail(work, email);
  admin.passwordHash = passwordHash;
  endLogins(work, admin);
  await forgetOrigins(work, admin.id);
  await auditAdmin(work, "platform_admin.password_reset", admin);
  return admin;
};

export const auditAdmin = (
  work: Work,
  action: string,
  { id, email }: Pick<PlatformAdmin, "id" | "email">,
): Promise<void> =>
  audit(work, { action, target: { type: "platform_admin", id }, tenantId: null, data: { email } });
