import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { releaseUnproved } from "../../src/domain/accounts/sso/domains.ts";
import { type Answer, aTenant, type Tenant } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo, mailedTo, mailsTo, tokenIn } from "../support/mail/mailbox.ts";
import { aBrowser, told } from "../support/providers/oauth.ts";
import { aDomain, aVerifiedDomain, oidcConfig, putSso, ssoStage, ssoUrl } from "../support/sso/server.ts";

const PASSWORD = "Correct-horse-7";
const RELEASED = /^[0-9a-f-]{36}@released\.invalid$/;

describe("an address that a stranger took before the owner of its domain came", () => {
  let owner: Tenant;
  let domain: string;
  let email: string;
  /** Somebody's tenant, registered under the address, with a password of theirs. */
  let squat: { userId: string; tenantId: string; token: string; key: string };

  const { api, server, provider } = ssoStage();

  const post = (path: string, body: object, token?: string): Promise<Answer> =>
    server.post(`/api/v1${path}`, body, token === undefined ? {} : { token });
  const config = (more: object = {}) =>
    oidcConfig(provider, { autoProvision: true, defaultRole: "DEVELOPER", ...more });
  beforeEach(async () => {
    domain = aDomain();
    email = `bob@${domain}`;
    const registration = { email, password: PASSWORD, name: "A stranger", tenantName: "Squatters" };
    const { accessToken: token, user } = must(await post("/auth/register", registration), 201);
    const project = must(await post("/projects", { name: "A game" }, token), 201);
    const keys = `/projects/${project.id}/api-keys`;
    const { key } = must(await post(keys, { name: "Server", scopes: ["*"] }, token), 201);
    squat = { userId: user.id, tenantId: user.tenantId, token, key };
    owner = await aTenant(server);
    await aVerifiedDomain(server, owner, domain);
    must(await putSso(server, owner, config()), 200);
  });

  const find = (where: object) => api.app.transact(({ em }) => em.findOne(User, where, { refresh: true }));
  const addressOfSquat = async (): Promise<string> => (await find({ id: squat.userId }))!.email;
  const prove = () =>
    api.app.transact(({ em }) => em.nativeUpdate(User, { id: squat.userId }, { emailVerified: true }));
  const come = async (claims: object = {}, sub: string = randomUUID()) => {
    provider.person = { sub, email, ...claims };
    return told((await aBrowser().go(ssoUrl(server, owner))).at);
  };
  const login = (address: string) => post("/auth/login", { email: address, password: PASSWORD });
  const invite = async (by: Tenant): Promise<string> => {
    const invitations = () => mailsTo(email).filter(({ subject }) => subject?.startsWith("Invitation"));
    const before = invitations().length;
    must(await post("/team/invitations", { email, role: "VIEWER" }, by.token), 201);
    const mail = await eventually(() => invitations()[before]);
    return tokenIn(mail);
  };

  it("is its person's once they come through the owner's provider, and the stranger's no more", async () => {
    const link = tokenIn(await aMailTo(email, /Verify/));
    const { access_token: token = "" } = await come();
    const { user } = must(await server.get("/api/v1/auth/me", { token }), 200);
    assert.deepEqual(
      [user.email, user.tenantId, user.role, user.emailVerified, user.hasPassword],
      [email, owner.tenantId, "DEVELOPER", true, false],
    );
    assertError(await login(email), 401, "INVALID_CREDENTIALS");
    assertError(await post("/auth/verify-email", { token: link }), 410, "VERIFICATION_TOKEN_EXPIRED");
    const mail = await aMailTo(email, /given up your email address/);
    assert.ok(mail.text?.includes(await addressOfSquat()));
  });

  it("leaves the stranger's tenant all that it has, under an address that can be changed", async () => {
    assert("access_token" in (await come()));
    const { user, tenant } = must(await server.get("/api/v1/auth/me", { token: squat.token }), 200);
    assert.match(user.email, RELEASED);
    assert.deepEqual([tenant.name, user.role, user.emailVerified], ["Squatters", "OWNER", false]);
    must(await server.get("/api/v1/players", { key: squat.key }), 200);
    must(await login(user.email), 200);
    const target = `${randomUUID()}@example.com`;
    const change = { email: target, currentPassword: PASSWORD };
    must(await server.patch("/api/v1/auth/me", change, { token: squat.token }), 200);
    must(await post("/auth/verify-email", { token: tokenIn(await aMailTo(target, /./)) }), 200);
    must(await login(target), 200);
    // Nobody reads what is sent there, so nothing is: neither the change nor a new key.
    assert.deepEqual(await mailedTo(api.app, user.email), []);
  });

  it("gives the person nothing of the stranger's, and tells the stranger nothing of the owner", async () => {
    const { access_token: token = "" } = await come();
    const { data } = must(await server.get("/api/v1/projects", { token }), 200);
    const seen = data.map(({ id }: { id: string }) => id);
    assert.deepEqual(seen, [owner.projectId]);
    const [line, ...more] = (await auditOf(api, squat.userId)).filter(({ action }) =>
      action.startsWith("user.email"),
    );
    const newEmail = await addressOfSquat();
    assert.deepEqual(line, {
      action: "user.email_released",
      actor: "system",
      tenant: squat.tenantId,
      data: { oldEmail: email, newEmail },
    });
    assert.deepEqual(more, []);
    const rows = await api.sql<{ row: string }>`
      select to_jsonb(a)::text as row from audit_log a
      where tenant_id = ${squat.tenantId}::uuid and action = 'user.email_released'`;
    assert.ok(!rows[0]!.row.includes(owner.tenantId) && !rows[0]!.row.includes(owner.userId));
    assert.equal((JSON.parse(rows[0]!.row) as { ip: string }).ip, "");
  });

  it("stays where it is once anybody has proved it: no provider takes an account over", async () => {
    await prove();
    assert.equal((await come({ email_verified: true }))["error"], "email_of_other_tenant");
    assert.equal(await addressOfSquat(), email);
    must(await login(email), 200);
  });

  it("stays where it is by the word of a provider whose tenant has not proved the domain", async () => {
    const other = await aTenant(server);
    must(await putSso(server, other, config({ autoProvision: false })), 200);
    provider.person = { sub: randomUUID(), email, email_verified: true };
    const answer = told((await aBrowser().go(ssoUrl(server, other))).at);
    assert.equal(answer["error"], "account_not_found");
    assert.equal(await addressOfSquat(), email);
  });

  it("stays where it is when its person is not let in after all", async () => {
    must(await putSso(server, owner, config({ autoProvision: false })), 200);
    assert.equal((await come())["error"], "account_not_found");
    must(await putSso(server, owner, config({ allowedDomains: ["example.com"] })), 200);
    assert.equal((await come())["error"], "email_domain_not_allowed");
    assert.equal((await come({ email_verified: false }))["error"], "email_not_verified");
    assert.equal(await addressOfSquat(), email);
    assert.deepEqual(
      (await mailedTo(api.app, email)).filter((template) => template === "email-released"),
      [],
    );
  });

  it("stays where it is on a server without mail, where nobody could have proved it", async () => {
    const wanted = { tenantId: owner.tenantId, email };
    const off = { ...api.app.mail, isOff: true };
    assert.equal(await api.app.transact((work) => releaseUnproved(work, off, wanted)), false);
    assert.equal(await addressOfSquat(), email);
  });

  it("is given up once by two sign-ins at a time, which make one account", async () => {
    const sub = randomUUID();
    const answers = await Promise.all([come({}, sub), come({}, sub)]);
    assert.ok(answers.every((answer) => "access_token" in answer));
    assert.equal((await find({ email }))?.tenantId, owner.tenantId);
    const lines = (await auditOf(api, squat.userId)).filter(({ action }) => /released/.test(action));
    assert.equal(lines.length, 1);
  });

  for (const [how, path, more] of [
    ["accept an invitation of the owner", "/team/invitations/accept", (token: string) => ({ token })],
    ["register with one", "/auth/register", (token: string) => ({ invitationToken: token, email })],
  ] as const)
    it(`is its person's too when they ${how}, and stays with an invitation of others`, async () => {
      const body = { name: "Bob", password: "Another-horse-8" };
      const elsewhere = await invite(await aTenant(server));
      assertError(await post(path, { ...body, ...more(elsewhere) }), 409, "EMAIL_ALREADY_EXISTS");
      assert.equal(await addressOfSquat(), email);
      const token = await invite(owner);
      const answer = await post(path, { ...body, ...more(token) });
      assert.ok(answer.status === 200 || answer.status === 201, JSON.stringify(answer.body));
      assert.equal((await find({ email }))?.tenantId, owner.tenantId);
      assert.match(await addressOfSquat(), RELEASED);
    });
});
