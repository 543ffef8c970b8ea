import { sql } from "kysely";
import { LIMITS } from "../../../src/domain/accounts/rate-limits/limiter.ts";
import { OAuthError } from "../../../src/domain/accounts/oauth/provider.ts";
import { keepFailure } from "../../../src/domain/accounts/sso/clients.ts";
import { startApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import type { Side } from "../app/sides.ts";
import { aSigningKey, samlConfig } from "../sso/saml-config.ts";
import { aDomain } from "../sso/server.ts";
import { sharedTxtServer } from "../sso/txt-server.ts";
import type { Known } from "./operations.ts";
import { SWEPT_REDIRECT_URI } from "./oauth.ts";

const { cert } = aSigningKey();
const SSO = "/enterprise/sso";
/** Nobody answers there. */
const body = () => samlConfig(cert, { samlSsoUrl: "http://127.0.0.1:9/sso" });

/** Gives the tenant a SAML provider. */
const configured = async ({ tenant: { token } }: Side): Promise<void> => {
  const api = await startApp();
  must(await api.put(`/api/v1${SSO}`, body(), { token }), 200);
};

/** The path of a domain whose TXT record is there. */
const aClaim = async ({ tenant }: Side): Promise<string> => {
  const api = await startApp();
  await api.app.transact(({ db }) =>
    // A tenant has room for few.
    sql`
      delete from sso_domains where tenant_id = ${tenant.tenantId}::uuid and id not in (
        select id from sso_domains where tenant_id = ${tenant.tenantId}::uuid
        order by created_at desc, id desc limit 30)`.execute(db),
  );
  const options = { token: tenant.token };
  const made = must(await api.post(`/api/v1${SSO}/domains`, { domain: aDomain() }, options), 201);
  (await sharedTxtServer()).records.set(made.txtName, [[made.txtValue]]);
  return `${SSO}/domains/${made.id}`;
};

const withSso =
  (call: (side: Side) => { path: string; body?: unknown }): Known["call"] =>
  async (side) => {
    await configured(side);
    return call(side);
  };

export const ssoOperations: Record<string, Known> = {
  getSso: { call: withSso(() => ({ path: SSO })) },
  putSso: { call: () => ({ path: SSO, body: body() }) },
  deleteSso: { call: withSso(() => ({ path: SSO })) },
  testSso: {
    call: async (side) => {
      await configured(side);
      const { app } = await startApp();
      await app.limiter.reset(LIMITS.ssoTest, side.tenant.tenantId);
      return { path: `${SSO}/test`, body: {} };
    },
  },
  listSsoFailures: {
    call: async ({ tenant: { tenantId } }) => {
      const { app } = await startApp();
      const failure = new OAuthError("provider_error", "The provider refused the sign-in", undefined, {
        text: "the browser came back with x",
        isAnybodys: true,
      });
      const report = (): void => undefined;
      await keepFailure({ ...app, report }, { tenantId, failure, email: "ada@acme.com" });
      return { path: `${SSO}/failures` };
    },
  },
  listSsoDomains: {
    call: async (side) => {
      await aClaim(side);
      return { path: `${SSO}/domains` };
    },
  },
  addSsoDomain: {
    call: async (side) => {
      await aClaim(side);
      return { path: `${SSO}/domains`, body: { domain: aDomain() } };
    },
  },
  verifySsoDomain: { call: async (side) => ({ path: `${await aClaim(side)}/verify`, body: {} }) },
  removeSsoDomain: { call: async (side) => ({ path: await aClaim(side) }) },
  discoverSso: { call: () => ({ path: "/auth/sso/discover", body: { email: "ada@acme.com" } }) },
  startSso: {
    call: withSso(({ tenant: { tenantId } }) => ({
      path: `/auth/sso/${tenantId}?response_mode=code&redirect_uri=${encodeURIComponent(SWEPT_REDIRECT_URI)}`,
    })),
  },
  // Without the cookie of a browser that began the sign-in there is none.
  completeSsoOidc: {
    success: 400,
    call: withSso(({ tenant: { tenantId } }) => ({
      path: `/auth/sso/oidc/${tenantId}/callback?state=x&code=y`,
    })),
  },
  // Sweeps send JSON, and this takes a form; test/http/sso-saml.test.ts sends that.
  completeSsoSaml: {
    success: 415,
    call: withSso(({ tenant: { tenantId } }) => ({
      path: `/auth/sso/saml/${tenantId}/acs`,
      body: { SAMLResponse: "YQ==", RelayState: "x" },
    })),
  },
  getSsoSamlMetadata: {
    call: ({ tenant: { tenantId } }) => ({ path: `/auth/sso/saml/${tenantId}/metadata` }),
  },
};
