import type { z } from "zod";
import {
  createAdmin,
  disableAdmin,
  enableAdmin,
  findAdminByEmail,
  listAdmins,
  resetAdminPassword,
} from "../domain/accounts/admin/admins.ts";
import { randomBase62 } from "../domain/accounts/auth/one-time-secrets.ts";
import { createPasswords, passwordProblems, refuseWeakPassword } from "../domain/accounts/auth/passwords.ts";
import { resetAdminMfa } from "../domain/accounts/mfa/factors.ts";
import { endEnforcement } from "../domain/accounts/sso/configure.ts";
import { EmailAddress } from "../domain/accounts/email/address.ts";
import { Name } from "../domain/accounts/tenants/tenant.ts";
import { firstProblem } from "../domain/kernel/zod-problems.ts";
import { readNewPassword } from "./ask.ts";
import { loadCommandConfig, refuseRunningServer, withTransact } from "./with-database.ts";

const GENERATED_CHARACTERS = 24;

const checked = <T>(schema: z.ZodType<T>, name: string, value: unknown): T => {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new Error(firstProblem(result.error, name));
};
const emailOf = (text: string): string => checked(EmailAddress, "email", text);

export type PasswordFlags = { generate?: boolean };
export type CreateFlags = PasswordFlags & { email: string; name?: string };

type Owner = { email: string; name: string };
type NewPassword = { password: string; isGenerated: boolean };

const generatePassword = (owner: Owner): string => {
  for (;;) {
    const password = randomBase62(GENERATED_CHARACTERS);
    if (passwordProblems(password, owner).length === 0) return password;
  }
};

/** @throws DomainError PASSWORD_TOO_WEAK */
const newPassword = async (owner: Owner, { generate = false }: PasswordFlags): Promise<NewPassword> => {
  const password = generate ? generatePassword(owner) : await readNewPassword();
  refuseWeakPassword(password, owner);
  return { password, isGenerated: generate };
};

const show = ({ password, isGenerated }: NewPassword): void => {
  if (isGenerated) console.log(`password  ${password}\nIt is shown only here.`);
};

/** Creates a super-admin and prints how they log in. @throws Error for invalid flags */
export const create = async ({ email: address, name: given, generate }: CreateFlags): Promise<void> => {
  const config = await loadCommandConfig();
  await refuseRunningServer(config);
  const email = emailOf(address);
  const name = given === undefined ? email.slice(0, email.indexOf("@")) : checked(Name, "name", given);
  const chosen = await newPassword({ email, name }, generate === undefined ? {} : { generate });
  await withTransact(config, async (transact) => {
    const parts = { transact, passwords: createPasswords() };
    const admin = await createAdmin(parts, { email, name, password: chosen.password });
    console.log(`${admin.email} is a super-admin; log in with POST /superadmin/auth/login`);
  });
  show(chosen);
};

/** Prints every super-admin, one per line. */
export const list = async (): Promise<void> =>
  withTransact(await loadCommandConfig(), async (transact) => {
    const admins = await transact(listAdmins);
    for (const { email, name, disabledAt, lastLoginAt } of admins) {
      const state = disabledAt ? `disabled ${disabledAt.toISOString()}` : "active";
      const login = lastLoginAt ? `last login ${lastLoginAt.toISOString()}` : "never logged in";
      console.log([email, name, state, login].join("  "));
    }
    if (admins.length === 0) console.log("There are no super-admins; make one with laurel admin create");
  });

/** Disables a super-admin's account. @throws DomainError NOT_FOUND */
export const disable = async (email: string): Promise<void> =>
  withTransact(await loadCommandConfig(), async (transact) => {
    const admin = await transact((work) => disableAdmin(work, email));
    console.log(`${admin.email} is disabled; running servers refuse them within 5 seconds`);
  });

/** Enables a disabled super-admin's account. @throws DomainError NOT_FOUND */
export const enable = async (email: string): Promise<void> =>
  withTransact(await loadCommandConfig(), async (transact) => {
    const admin = await transact((work) => enableAdmin(work, email));
    console.log(`${admin.email} may log in again`);
  });

/** Sets a new password for a super-admin and ends their sessions. @throws DomainError NOT_FOUND */
export const resetPassword = async (email: string, flags: PasswordFlags): Promise<void> => {
  const config = await loadCommandConfig();
  const owner = await withTransact(config, (transact) => transact((work) => findAdminByEmail(work, email)));
  const chosen = await newPassword(owner, flags);
  const passwordHash = await createPasswords().hash(chosen.password);
  await withTransact(config, (transact) =>
    transact((work) => resetAdminPassword(work, owner.email, passwordHash)),
  );
  console.log(`${owner.email} has a new password; every login of before has ended`);
  if (owner.disabledAt) console.log(`They are still disabled: laurel admin enable ${owner.email}`);
  show(chosen);
};

/** Removes a super-admin's second factor, so that they set up a new one. @throws DomainError NOT_FOUND */
export const resetMfa = async (email: string): Promise<void> =>
  withTransact(await loadCommandConfig(), async (transact) => {
    const admin = await transact((work) => resetAdminMfa(work, email));
    console.log(`${admin.email} has no second factor; every login of before has ended`);
  });

/** Ends a tenant's enforcement of single sign-on. @throws DomainError NOT_FOUND, CONFLICT INVALID_STATE */
export const endSsoEnforcement = async (tenantId: string): Promise<void> =>
  withTransact(await loadCommandConfig(), async (transact) => {
    const name = await transact((work) => endEnforcement(work, tenantId));
    console.log(`${name} no longer enforces single sign-on; its people set a password by the console's`);
    console.log("forgotten password, or by POST /auth/forgot-password");
  });
