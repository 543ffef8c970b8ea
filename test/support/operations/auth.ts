import { startSession } from "../../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../../src/domain/accounts/auth/user.ts";
import { type Tenant, startApp } from "../app/app.ts";
import { aMember, type Member } from "../app/member.ts";
import type { Known } from "./operations.ts";
import { isOneTenant } from "../app/sides.ts";

const PASSWORD = "Brass-Lantern-58";

/** A member of their own for each call: these end sessions or change a password. */
const someone = async ({ tenantId }: Tenant): Promise<Member> =>
  aMember(await startApp(), tenantId, "VIEWER");

const withPassword = async (tenant: Tenant): Promise<Member> => {
  const [{ app }, member] = [await startApp(), await someone(tenant)];
  const passwordHash = await app.passwords.hash(PASSWORD);
  await app.transact(({ em }) => em.nativeUpdate(User, { id: member.userId }, { passwordHash }));
  return member;
};

/** The id of a further session of a user. */
const aSession = async (userId: string): Promise<string> => {
  const { app } = await startApp();
  const signedIn = await app.transact(async (work) => {
    const user = await work.em.findOneOrFail(User, { id: userId });
    return startSession(work, app.tokens, user, { method: "PASSWORD" });
  });
  return (await app.tokens.verifyAccess(signedIn.accessToken)).sid;
};

const pathOf = (sessionId: string): string => `/auth/sessions/${sessionId}`;

export const authOperations: Record<string, Known> = {
  refreshSession: {
    call: async ({ tenant }) => ({
      path: "/auth/refresh",
      body: { refreshToken: (await someone(tenant)).refreshToken },
    }),
  },
  logout: {
    call: async ({ tenant }) => ({
      path: "/auth/logout",
      body: {},
      token: (await someone(tenant)).token,
    }),
  },
  getAccount: { call: () => ({ path: "/auth/me" }) },
  updateAccount: { call: () => ({ path: "/auth/me", body: { name: "Ada Lovelace" } }) },
  changePassword: {
    call: async ({ tenant }) => ({
      path: "/auth/change-password",
      body: { currentPassword: PASSWORD, newPassword: "Copper-Kettle-91" },
      token: (await withPassword(tenant)).token,
    }),
  },
  listSessions: { call: () => ({ path: "/auth/sessions" }) },
  revokeSession: {
    call: async ({ tenant }) => {
      const { userId, token } = await someone(tenant);
      return { path: pathOf(await aSession(userId)), token };
    },
    foreign: async (own, other) => {
      const users = [(await someone(own.tenant)).userId, (await someone(other.tenant)).userId];
      if (!isOneTenant(own, other)) users.push(other.tenant.userId);
      return Promise.all(users.map(async (userId) => ({ path: pathOf(await aSession(userId)) })));
    },
  },
};
