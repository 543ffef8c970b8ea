import { sql } from "kysely";
import { issueUserToken, type UserTokenPurpose } from "../../../src/domain/accounts/auth/one-time-secrets.ts";
import { type Tenant, startApp } from "../app/app.ts";
import { unique } from "./bodies.ts";
import type { Known } from "./operations.ts";
import { aMember } from "../app/member.ts";

const PASSWORD = "Brass-Lantern-58";

/** A token as the mail has it, of a fresh member of the tenant. */
const mailedToken = async ({ tenantId }: Tenant, purpose: UserTokenPurpose): Promise<string> => {
  const api = await startApp();
  const { userId, email } = await aMember(api, tenantId, "VIEWER");
  return api.app.transact((work) => issueUserToken(work, { userId, tenantId, purpose, email, seconds: 60 }));
};

/** As after a sign-up through a provider that told no name, for every member. */
const forgetProfiles = async ({ tenantId }: Tenant): Promise<void> => {
  const { app } = await startApp();
  await app.transact(({ db }) =>
    sql`update users set profile_completed = false where tenant_id = ${tenantId}::uuid`.execute(db),
  );
};

export const registrationOperations: Record<string, Known> = {
  getCaptcha: { call: () => ({ path: "/auth/captcha" }) },
  forgotPassword: {
    call: () => ({ path: "/auth/forgot-password", body: { email: `${unique("ada")}@example.com` } }),
  },
  resetPassword: {
    call: async ({ tenant }) => ({
      path: "/auth/reset-password",
      body: { token: await mailedToken(tenant, "RESET_PASSWORD"), password: PASSWORD },
    }),
  },
  verifyEmail: {
    call: async ({ tenant }) => ({
      path: "/auth/verify-email",
      body: { token: await mailedToken(tenant, "VERIFY_EMAIL") },
    }),
  },
  resendVerification: {
    call: () => ({ path: "/auth/resend-verification", body: { email: `${unique("ada")}@example.com` } }),
  },
  completeProfile: {
    call: async ({ tenant }) => {
      await forgetProfiles(tenant);
      return { path: "/auth/complete-profile", body: { name: "Ada Lovelace" } };
    },
  },
};
