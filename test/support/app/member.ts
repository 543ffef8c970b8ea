import { startSession } from "../../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../../src/domain/accounts/auth/user.ts";
import { addUser } from "../../../src/domain/accounts/tenants/tenant.ts";
import type { Role } from "../../../src/domain/kernel/caller.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";
import type { TestApp } from "./app.ts";

export type Member = { userId: string; email: string; token: string; refreshToken: string };

/** A further user of a tenant who has just signed in; they have no password. */
export const aMember = async (
  { app }: TestApp,
  tenantId: string,
  role: Role,
  status: "ACTIVE" | "PENDING" | "SUSPENDED" = "ACTIVE",
): Promise<Member> =>
  app.transact(async (work) => {
    const email = `${newId()}@example.com`;
    const user = await addUser(work, tenantId, {
      email,
      name: `A ${role}`,
      passwordHash: null,
      role,
      status,
      emailVerified: true,
    });
    const session = await startSession(work, app.tokens, user, { method: "PASSWORD" });
    return { userId: user.id, email, token: session.accessToken, refreshToken: session.refreshToken };
  });

/** As `aMember`, with a password. */
export const aMemberWithPassword = async (
  api: TestApp,
  tenantId: string,
  {
    role,
    password,
    status = "ACTIVE",
  }: { role: Role; password: string; status?: "ACTIVE" | "PENDING" | "SUSPENDED" },
): Promise<Member & { password: string }> => {
  const member = await aMember(api, tenantId, role, status);
  const passwordHash = await api.app.passwords.hash(password);
  await api.app.transact(({ em }) => em.nativeUpdate(User, { id: member.userId }, { passwordHash }));
  return { ...member, password };
};
