import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { forgetSessions } from "../../src/domain/accounts/auth/sessions.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { forgetScimTokens } from "../../src/domain/accounts/scim/tokens.ts";
import { aTenant } from "../support/app/app.ts";
import { auditOf } from "../support/app/audit.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { withTotp } from "../support/mfa/second-factor.ts";
import { aProvider, ownProvider, assertScimError, mustScim, scimClient } from "../support/scim/provider.ts";

const SCIM = "/api/v1/enterprise/scim";
const TOKENS = `${SCIM}/tokens`;

describe("tokens of SCIM", () => {
  const { api, server, tenant, provider } = ownProvider();
  const create = (body: object, { token } = tenant) => server.post(TOKENS, body, { token });

  it("are shown once, stored as a hash, and listed with their last use", async () => {
    assert.match(provider.token, /^svc_scim_[0-9A-Za-z]{42}$/);
    const text = () =>
      api.app.transact(async ({ db }) => {
        const { rows } = await sql<{ row: string }>`
          select to_jsonb(t)::text as row from scim_tokens t where id = ${provider.tokenId}::uuid`.execute(
          db,
        );
        return rows[0]?.row ?? "";
      });
    assert.ok(!(await text()).includes(provider.token));
    const settings = must(await server.get(SCIM, { token: tenant.token }), 200);
    assert.equal(settings.baseUrl, `${server.url}/scim/v2`);
    assert.deepEqual([settings.defaultRole, settings.groups], ["VIEWER", []]);
    assert.ok(!JSON.stringify(settings).includes(provider.token));
    assert.equal(settings.tokens[0].lastUsedAt, null);
    mustScim(await provider.scim("GET", "/Users"), 200);
    await eventually(async () => {
      const { tokens } = must(await server.get(SCIM, { token: tenant.token }), 200);
      return tokens[0].lastUsedAt as string | null;
    });
    const actions = (await auditOf(api, provider.tokenId)).map(({ action, actor }) => [action, actor]);
    assert.deepEqual(actions, [["scim_token.created", `user:${tenant.userId}`]]);
  });

  it("end when they are revoked or expire, while the next one goes on", async () => {
    const next = must(await create({ name: "Next" }), 201);
    const path = `${TOKENS}/${provider.tokenId}`;
    mustScim(await provider.scim("GET", "/Users"), 200);
    must(await server.delete(path, { token: tenant.token }), 200);
    assertScimError(await provider.scim("GET", "/Users"), 401);
    assertError(await server.delete(path, { token: tenant.token }), 409, "INVALID_STATE");
    mustScim(await scimClient(server.url, next.token)("GET", "/Users"), 200);
    const other = await aTenant(server);
    assertError(await server.delete(`${TOKENS}/${next.id}`, { token: other.token }), 404);
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const brief = must(await create({ name: "Brief", expiresAt }), 201);
    assert.equal(brief.expiresAt, expiresAt);
    await api.app.transact(({ db }) =>
      sql`update scim_tokens set expires_at = '2020-01-01Z' where id = ${brief.id}::uuid`.execute(db),
    );
    assertScimError(await scimClient(server.url, brief.token)("GET", "/Users"), 401);
    assertError(await create({ name: "Past", expiresAt: "2020-01-01T00:00:00Z" }), 400);
  });

  it("are at most five that work", async () => {
    for (let i = 0; i < 4; i++) must(await create({ name: `Token ${i}` }), 201);
    assertError(await create({ name: "One more" }), 409, "LIMIT_REACHED");
    must(await server.delete(`${TOKENS}/${provider.tokenId}`, { token: tenant.token }), 200);
    must(await create({ name: "One more" }), 201);
  });

  it("come again under their idempotency key only to who may make one now", async () => {
    await withTotp(api, tenant);
    const options = { token: tenant.token, headers: { "X-Idempotency-Key": randomUUID() } };
    const repeat = () => server.post(TOKENS, { name: "Okta" }, options);
    const made = must(await repeat(), 201);
    assert.equal(must(await repeat(), 201).token, made.token);
    await api.app.transact(({ db }) =>
      sql`update sessions set mfa_at = mfa_at - interval '10 minutes'
        where user_id = ${tenant.userId}::uuid`.execute(db),
    );
    const refused = await repeat();
    assertError(refused, 403, "REAUTHENTICATION_REQUIRED");
    assert.ok(!JSON.stringify(refused.body).includes(made.token));
  });

  it("open SCIM alone, and SCIM is opened by nothing else", async () => {
    const { token } = provider;
    for (const path of ["/auth/me", "/team/members", "/enterprise/scim", "/projects", "/players"]) {
      assertError(await server.get(`/api/v1${path}`, { token }), 401, "TOKEN_INVALID");
      assertError(await server.get(`/api/v1${path}`, { key: token }), 401, "API_KEY_INVALID");
    }
    const headers = [
      {},
      { Authorization: `Bearer ${tenant.token}` },
      { Authorization: `Bearer ${token.slice(0, -1)}x` },
      { Authorization: `Bearer ${tenant.key}` },
      { Authorization: token },
      { "X-API-Key": tenant.key },
      { "X-API-Key": token },
    ];
    for (const one of headers)
      for (const path of ["/Users", "/Groups", "/ServiceProviderConfig", "/Schemas", "/ResourceTypes"])
        assertScimError(await scimClient(server.url, undefined)("GET", path, undefined, one), 401);
  });

  it("let nobody in without single sign-on in the plan, and do nothing for a suspended tenant", async () => {
    await putOnPlan(api, tenant.tenantId, "PRO");
    forgetSessions();
    assertError(await create({ name: "Okta" }), 402, "PLAN_FEATURE_UNAVAILABLE");
    const suspended = await aTenant(server);
    const theirs = await aProvider(server, suspended);
    await api.app.transact(({ db }) =>
      sql`
        update tenants set approval_status = 'SUSPENDED' where id = ${suspended.tenantId}::uuid`.execute(db),
    );
    forgetScimTokens();
    assertScimError(await theirs.scim("GET", "/Users"), 403);
    assertScimError(await provider.scim("POST", "/Users", { userName: provider.address() }), 402);
    mustScim(await provider.scim("GET", "/Users"), 200);
  });

  it("are counted: beyond the rate of the tenant the answer is 429 with Retry-After", async () => {
    mustScim(await provider.scim("GET", "/Users"), 200);
    await api.app.limiter.consume(LIMITS.scim, tenant.tenantId, LIMITS.scim.points);
    const refused = await provider.scim("GET", "/Users");
    assertScimError(refused, 429);
    assert.ok(Number(refused.headers.get("retry-after")) > 0);
    const other = await aProvider(server, await aTenant(server));
    mustScim(await other.scim("GET", "/Users"), 200);
  });
});
