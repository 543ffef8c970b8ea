import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { forgetSessions } from "../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { forgetScimTokens } from "../../src/domain/accounts/scim/tokens.ts";
import { addUser } from "../../src/domain/accounts/tenants/tenant.ts";
import type { MemberStatus, Role } from "../../src/domain/kernel/caller.ts";
import { aTenant } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { aMember } from "../support/app/member.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import {
  aGroup,
  aProvider,
  assertScimError,
  aUser,
  mustScim,
  ownProvider,
  patchOf,
  scimClient,
  signedInAs,
} from "../support/scim/provider.ts";
import { aSigningKey, putSso, samlConfig } from "../support/sso/server.ts";

describe("what SCIM never does", () => {
  const { api, server, tenant, provider } = ownProvider();

  /** A member with an address of the verified domain whom SCIM has not made. */
  const aKnown = (role: Role, status: MemberStatus = "ACTIVE", emailVerified = true) =>
    api.app.transact((work) => {
      const fields = { email: provider.address(), name: "Somebody", role, status, emailVerified };
      return addUser(work, tenant.tenantId, { ...fields, passwordHash: "x" });
    });
  const off = patchOf({ op: "replace", value: { active: false } });

  it("deactivates, deletes or moves the last OWNER", async () => {
    const { scim } = provider;
    const owner = await aKnown("OWNER");
    const path = `/Users/${owner.id}`;
    await api.app.transact(({ em }) => em.nativeUpdate(User, { id: tenant.userId }, { role: "ADMIN" }));
    assert.match(assertScimError(await scim("PATCH", path, off), 409), /needs an OWNER/);
    assert.match(
      assertScimError(await scim("PUT", path, { userName: owner.email, active: false }), 409),
      /OWNER/,
    );
    assert.match(assertScimError(await scim("DELETE", path), 409), /needs an OWNER/);
    const another = await aKnown("OWNER");
    mustScim(await scim("DELETE", `/Users/${another.id}`), 204);
    assert.equal(mustScim(await scim("GET", path), 200).active, true);
  });

  it("touches the break-glass OWNER", async () => {
    const { scim } = provider;
    const owner = await aKnown("OWNER");
    must(await putSso(server, tenant, samlConfig(aSigningKey().cert)), 200);
    await api.app.transact(({ db }) =>
      sql`
        update sso_configurations set enforce_sso = true, break_glass_user_id = ${owner.id}::uuid
        where tenant_id = ${tenant.tenantId}::uuid`.execute(db),
    );
    const path = `/Users/${owner.id}`;
    assert.match(assertScimError(await scim("PATCH", path, off), 409), /breakGlassUserId/);
    assert.match(assertScimError(await scim("DELETE", path), 409), /breakGlassUserId/);
    const move = patchOf({ op: "replace", path: 'emails[type eq "work"].value', value: provider.address() });
    assert.match(assertScimError(await scim("PATCH", path, move), 409), /breakGlassUserId/);
    const group = await aGroup(provider, "Everybody", owner);
    mustScim(await scim("DELETE", `/Groups/${group.id}`), 204);
    assert.equal(mustScim(await scim("GET", path), 200).roles[0].value, "OWNER");
  });

  it("moves an OWNER's address, with which goes the way to a new password", async () => {
    const owner = await aKnown("OWNER");
    const moved = { userName: provider.address(), emails: [{ value: provider.address(), primary: true }] };
    const answer = await provider.scim("PUT", `/Users/${owner.id}`, moved);
    assert.match(assertScimError(answer, 409), /OWNER/);
  });

  it("forgets that somebody is to be out because a super-admin has disabled them", async () => {
    const { scim } = provider;
    const user = await aKnown("VIEWER");
    const disabledAt = new Date();
    await api.app.transact(({ em }) => em.nativeUpdate(User, { id: user.id }, { disabledAt }));
    mustScim(await scim("PATCH", `/Users/${user.id}`, off), 200);
    const found = await api.app.transact(({ em }) => em.findOneOrFail(User, { id: user.id }));
    assert.equal(found.status, "SUSPENDED");
  });

  it("compares more addresses with one another than a user may have", async () => {
    const { scim } = provider;
    const { id } = await aUser(provider);
    const value = Object.fromEntries(
      Array.from({ length: 1_000 }, (_, i) => [`emails[type eq "t${i}"].value`, "a@b.c"]),
    );
    const answer = await scim("PATCH", `/Users/${id}`, patchOf({ op: "replace", value }));
    assert.match(assertScimError(answer, 400, "invalidValue"), /at most/);
  });

  it("makes accounts outside the verified domains, or moves one there", async () => {
    const { scim } = provider;
    for (const userName of [
      `ada@example.com`,
      `ada@sub.${provider.domain}`,
      "ada",
      `ada@x@${provider.domain}`,
    ])
      assertScimError(await scim("POST", "/Users", { userName }), 400, "invalidValue");
    const ada = await aUser(provider);
    const move = patchOf({ op: "add", path: "emails", value: [{ value: "ada@example.com", primary: true }] });
    assertScimError(await scim("PATCH", `/Users/${ada.id}`, move), 400, "invalidValue");
    assert.equal(mustScim(await scim("GET", `/Users/${ada.id}`), 200).emails[0].value, ada.userName);
  });

  it("takes over an account of another tenant", async () => {
    const { scim } = provider;
    const other = await aTenant(server);
    const email = provider.address();
    const theirs = await api.app.transact((work) => {
      const fields = { email, name: "Theirs", role: "OWNER", status: "ACTIVE", emailVerified: true } as const;
      return addUser(work, other.tenantId, { ...fields, passwordHash: "x" });
    });
    assertScimError(await scim("POST", "/Users", { userName: email }), 409, "uniqueness");
    const ada = await aUser(provider);
    const move = patchOf({ op: "replace", path: 'emails[type eq "work"].value', value: email });
    assertScimError(await scim("PATCH", `/Users/${ada.id}`, move), 409, "uniqueness");
    assertScimError(await scim("GET", `/Users/${theirs.id}`), 404);
  });

  it("shows or changes what is another tenant's, or none of the provider's people", async () => {
    const others = await aProvider(server, await aTenant(server));
    const partner = await aMember(api, tenant.tenantId, "DEVELOPER");
    const waiting = await aKnown("VIEWER", "PENDING", false);
    const theirs = await aUser(others);
    const group = await aGroup(others, "Theirs", theirs);
    const { scim } = provider;
    for (const id of [theirs.id, partner.userId, waiting.id, tenant.userId, randomUUID(), "x", "..%2f"]) {
      assertScimError(await scim("GET", `/Users/${id}`), 404);
      assertScimError(await scim("PUT", `/Users/${id}`, { userName: provider.address() }), 404);
      assertScimError(await scim("PATCH", `/Users/${id}`, off), 404);
      assertScimError(await scim("DELETE", `/Users/${id}`), 404);
      const value = [{ value: id }];
      const body = { displayName: `G ${id}`, members: value };
      assertScimError(await scim("POST", "/Groups", body), 400, "invalidValue");
    }
    for (const id of [group.id, randomUUID(), "x"]) {
      assertScimError(await scim("GET", `/Groups/${id}`), 404);
      assertScimError(await scim("PUT", `/Groups/${id}`, { displayName: "Mine" }), 404);
      assertScimError(await scim("PATCH", `/Groups/${id}`, patchOf({ op: "remove", path: "members" })), 404);
      assertScimError(await scim("DELETE", `/Groups/${id}`), 404);
    }
    assert.equal(mustScim(await scim("GET", "/Users"), 200).totalResults, 0);
    assert.equal(mustScim(await scim("GET", "/Groups"), 200).totalResults, 0);
    assert.equal(mustScim(await others.scim("GET", `/Groups/${group.id}`), 200).members.length, 1);
  });

  it("leaves a stranger in an account that it accepts", async () => {
    const waiting = await aKnown("VIEWER", "PENDING", false);
    const token = await signedInAs(api, waiting.id);
    const made = mustScim(await provider.scim("POST", "/Users", { userName: waiting.email }), 201);
    assert.equal(made.id, waiting.id);
    must(await server.get("/api/v1/auth/me", { token }), 401);
    const again = await signedInAs(api, made.id);
    const { user } = must(await server.get("/api/v1/auth/me", { token: again }), 200);
    assert.deepEqual([user.status, user.hasPassword, user.emailVerified], ["ACTIVE", false, true]);
  });

  it("exceeds the members of the plan", async () => {
    await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { members: 2 });
    const ada = await aUser(provider);
    const refused = await provider.scim("POST", "/Users", { userName: provider.address() });
    assert.match(assertScimError(refused, 402), /2 members/);
    mustScim(await provider.scim("DELETE", `/Users/${ada.id}`), 204);
    await aUser(provider);
  });

  it("overwrites a version that the provider has not seen", async () => {
    const { scim } = provider;
    const ada = await aUser(provider);
    const group = await aGroup(provider, "A group", ada);
    for (const [path, name] of [
      [`/Users/${ada.id}`, "displayName"],
      [`/Groups/${group.id}`, "displayName"],
    ] as const) {
      const { meta } = mustScim(await scim("GET", path), 200);
      const known = { "If-None-Match": meta.version };
      assert.equal((await scim("GET", path, undefined, known)).status, 304);
      const rename = (value: string) => patchOf({ op: "replace", path: name, value });
      const match = { "If-Match": meta.version };
      assert.ok((await scim("PATCH", path, rename("Another name"), match)).status < 300);
      assertScimError(await scim("PATCH", path, rename("A third name"), match), 412);
      assertScimError(await scim("DELETE", path, undefined, match), 412);
      assert.equal((await scim("GET", path, undefined, known)).status, 200);
      const { displayName } = mustScim(await scim("GET", path), 200);
      assert.equal(displayName, "Another name");
      mustScim(await scim("DELETE", path, undefined, { "If-Match": "*" }), 204);
    }
  });

  it("keeps somebody in because the plan has no SCIM any more; but lets nobody in", async () => {
    const { scim } = provider;
    const [leaver, gone] = [await aUser(provider), await aUser(provider)];
    const group = await aGroup(provider, "Team", leaver);
    await putOnPlan(api, tenant.tenantId, "PRO");
    forgetScimTokens();
    const fields = { userName: "new@example.com", displayName: "Another", active: false };
    mustScim(await scim("GET", `/Users?filter=${encodeURIComponent(`id eq "${leaver.id}"`)}`), 200);
    assertScimError(await scim("PUT", `/Users/${leaver.id}`, { ...fields, active: true }), 402);
    const left = mustScim(await scim("PUT", `/Users/${leaver.id}`, fields), 200);
    assert.deepEqual([left.active, left.userName], [false, leaver.userName]);
    assertScimError(
      await scim("PATCH", `/Users/${leaver.id}`, patchOf({ op: "replace", value: { active: true } })),
      402,
    );
    mustScim(await scim("DELETE", `/Users/${gone.id}`), 204);
    assertScimError(await scim("POST", "/Users", { userName: provider.address(), active: true }), 402);
    assertScimError(await scim("DELETE", `/Groups/${group.id}`), 402);
    mustScim(await scim("GET", `/Groups/${group.id}`), 200);
  });
});

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
    const listed = async () => must(await server.get(SCIM, { token: tenant.token }), 200).tokens[0].status;
    assert.equal(await listed(), "ACTIVE");
    await api.app.transact(({ db }) =>
      sql`update scim_tokens set expires_at = '2020-01-01Z' where id = ${brief.id}::uuid`.execute(db),
    );
    assert.equal(await listed(), "EXPIRED");
    assertScimError(await scimClient(server.url, brief.token)("GET", "/Users"), 401);
    assertError(await create({ name: "Past", expiresAt: "2020-01-01T00:00:00Z" }), 400);
  });

  it("are at most five that work", async () => {
    for (let i = 0; i < 4; i++) must(await create({ name: `Token ${i}` }), 201);
    assertError(await create({ name: "One more" }), 409, "LIMIT_REACHED");
    must(await server.delete(`${TOKENS}/${provider.tokenId}`, { token: tenant.token }), 200);
    const { id } = must(await create({ name: "One more" }), 201);
    await api.app.transact(({ db }) =>
      sql`update scim_tokens set expires_at = '2020-01-01Z' where id = ${id}::uuid`.execute(db),
    );
    must(await create({ name: "For the expired one" }), 201);
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
      { Authorization: `Bearer ${token.slice(0, -1)}${token.endsWith("x") ? "y" : "x"}` },
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
