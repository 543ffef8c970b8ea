import { User } from "../../src/domain/auth/user.ts";
import type { Role } from "../../src/domain/caller.ts";
import { newId } from "../../src/domain/ids.ts";
import type { TestApp } from "./app.ts";

/** A further user of a tenant, with an access token; they cannot log in. */
export const aMember = async (
  { app }: TestApp,
  tenantId: string,
  role: Role,
): Promise<{ userId: string; token: string }> => {
  const userId = newId();
  await app.transact(async ({ em, now }) => {
    const email = `${userId}@example.com`;
    const times = { createdAt: now, updatedAt: now };
    em.create(User, {
      id: userId,
      tenantId,
      email,
      name: `A ${role}`,
      passwordHash: "none",
      role,
      emailVerified: true,
      ...times,
    });
  });
  const { token } = await app.tokens.signAccess({ sub: userId, tid: tenantId, role });
  return { userId, token };
};
