import { sql } from "kysely";
import { User } from "../../../src/domain/accounts/auth/user.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";
import { issueCode } from "../../../src/domain/accounts/oauth/sign-in.ts";
import { type Tenant, startApp } from "../app/app.ts";
import type { Known } from "./operations.ts";

/** Registered with the shared test app. */
export const SWEPT_REDIRECT_URI = "https://console.test.example/swept";

/** That of every OWNER of a side; who has none is not asked. */
const PASSWORD = "Correct-horse-7";

const start = `/auth/oauth/github?redirect_uri=${encodeURIComponent(SWEPT_REDIRECT_URI)}`;

const aCode = async ({ userId }: Tenant): Promise<string> => {
  const { app } = await startApp();
  return app.transact(async (work) =>
    issueCode(work, await work.em.findOneOrFail(User, { id: userId }), "github"),
  );
};

/** Every member of the tenant has two, so that each can lose one. */
const giveIdentities = async ({ tenantId }: Tenant): Promise<void> => {
  const { app } = await startApp();
  await app.transact(async ({ db, em }) => {
    for (const { id } of await em.find(User, { tenantId })) {
      for (const provider of ["google", "github"]) {
        await sql`
          insert into identities (id, tenant_id, user_id, provider, subject, created_at)
          values (${newId()}::uuid, ${tenantId}::uuid, ${id}::uuid, ${provider}, ${newId()}, now())
          on conflict do nothing`.execute(db);
      }
    }
  });
};

export const oauthOperations: Record<string, Known> = {
  listOAuthProviders: { call: () => ({ path: "/auth/oauth/providers" }) },
  startOAuth: { call: () => ({ path: `${start}&flow=signup&response_mode=code&invitation_token=x` }) },
  // Without the cookie of a browser that began the flow there is none.
  completeOAuth: { success: 400, call: () => ({ path: "/auth/oauth/github/callback?state=x&code=y" }) },
  exchangeOAuthCode: {
    call: async ({ tenant }) => ({ path: "/auth/oauth/exchange", body: { code: await aCode(tenant) } }),
  },
  listIdentities: { call: () => ({ path: "/auth/oauth/identities" }) },
  startOAuthLink: {
    call: () => ({
      path: "/auth/oauth/github/link",
      body: { redirect_uri: SWEPT_REDIRECT_URI, response_mode: "code", currentPassword: PASSWORD },
    }),
  },
  unlinkIdentity: {
    call: async ({ tenant }) => {
      await giveIdentities(tenant);
      return { path: "/auth/oauth/github", body: { currentPassword: PASSWORD } };
    },
  },
};
