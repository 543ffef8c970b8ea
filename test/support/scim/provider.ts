import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { startSession } from "../../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../../src/domain/accounts/auth/user.ts";
import { aTenant, type Tenant, type TestApp } from "../app/app.ts";
import { anAddress, must } from "../http/client.ts";
import { aVerifiedDomain, type SsoServer, ssoServer } from "../sso/server.ts";
import { madeForEach } from "../made.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- tests read bodies of every shape
export type ScimAnswer = { status: number; body: any; headers: Headers };
export type ScimClient = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<ScimAnswer>;

export const SCIM_TYPE = "application/scim+json";

/** A client as identity providers are: paths begin at the base URL. */
export const scimClient =
  (url: string, token: string | undefined): ScimClient =>
  async (method, path, body, headers = {}) => {
    const response = await fetch(`${url}/scim/v2${path}`, {
      method,
      redirect: "manual",
      headers: {
        "X-Forwarded-For": anAddress(),
        Accept: SCIM_TYPE,
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "Content-Type": SCIM_TYPE }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      body: text === "" ? undefined : JSON.parse(text),
      headers: response.headers,
    };
  };

export type Provider = {
  scim: ScimClient;
  token: string;
  tokenId: string;
  domain: string;
  /** An address that no user has. */
  address(): string;
};

/** The identity provider of a tenant, with a token and a verified domain. */
export const aProvider = async (server: SsoServer, tenant: Tenant): Promise<Provider> => {
  const domain = await aVerifiedDomain(server, tenant);
  const path = "/api/v1/enterprise/scim/tokens";
  const made = must(await server.post(path, { name: "Okta" }, { token: tenant.token }), 201);
  return {
    scim: scimClient(server.url, made.token),
    token: made.token,
    tokenId: made.id,
    domain,
    address: () => `${randomUUID().slice(0, 13)}@${domain}`,
  };
};

/** Signs a user of SCIM in; returns their access token. */
export const signedInAs = ({ app }: Pick<TestApp, "app">, userId: string): Promise<string> =>
  app.transact(async (work) => {
    const user = await work.em.findOneOrFail(User, { id: userId });
    return (await startSession(work, app.tokens, user, { method: "PASSWORD" })).accessToken;
  });

/** The body of an answer that has the status it must have. */
export const mustScim = ({ status, body }: ScimAnswer, wanted: number): ScimAnswer["body"] => {
  assert.equal(status, wanted, JSON.stringify(body));
  return body;
};

/** Checks that an answer is an error of the protocol; returns its detail. */
export const assertScimError = ({ status, body, headers }: ScimAnswer, wanted: number, scimType?: string) => {
  assert.equal(status, wanted, JSON.stringify(body));
  const { detail, ...rest } = body;
  assert.deepEqual(rest, {
    schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"],
    status: String(wanted),
    ...(scimType === undefined ? {} : { scimType }),
  });
  assert.equal(headers.get("content-type"), "application/scim+json; charset=utf-8");
  assert.ok(typeof detail === "string" && detail.length > 0);
  return detail;
};

/** A PATCH with these operations. */
export const patchOf = (...Operations: object[]) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
  Operations,
});

/** Makes a user whose userName is the address. */
export const aUser = async ({ scim, address }: Provider, more: object = {}) => {
  const userName = address();
  const schemas = ["urn:ietf:params:scim:schemas:core:2.0:User"];
  return mustScim(await scim("POST", "/Users", { schemas, userName, active: true, ...more }), 201);
};

/** Makes a group of these users. */
export const aGroup = async ({ scim }: Provider, displayName: string, ...members: { id: string }[]) => {
  const schemas = ["urn:ietf:params:scim:schemas:core:2.0:Group"];
  const body = { schemas, displayName, members: members.map(({ id: value }) => ({ value })) };
  return mustScim(await scim("POST", "/Groups", body), 201);
};

/** A provider of people for a tenant of each test's own. */
export const ownProvider = () => {
  const { api, server } = ssoServer();
  const tenant = madeForEach(() => aTenant(server));
  return { api, server, tenant, provider: madeForEach(() => aProvider(server, tenant)) };
};
