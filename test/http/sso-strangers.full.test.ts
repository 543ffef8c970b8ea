import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Invitation } from "../../src/domain/accounts/team/accept.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { addUser } from "../../src/domain/accounts/tenants/tenant.ts";
import type { MemberStatus, Role } from "../../src/domain/kernel/caller.ts";
import { aTenant } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo, mailsTo, tokenIn } from "../support/mail/mailbox.ts";
import { aBrowser, told } from "../support/providers/oauth.ts";
import {
  aSigningKey,
  aVerifiedDomain,
  oidcConfig,
  putSso,
  samlConfig,
  ssoStage,
  ssoUrl,
} from "../support/sso/server.ts";
import { madeForEach } from "../support/made.ts";

const PASSWORD = "Correct-horse-7";

describe("single sign-on and people who are not whose address they have", () => {
  let domain: string;

  const configure = async (more: object = {}) =>
    must(
      await putSso(
        server,
        tenant,
        oidcConfig(provider, { autoProvision: true, defaultRole: "DESIGNER", ...more }),
      ),
      200,
    );
  const anAddress = () => `${randomUUID()}@${domain}`;
  /** Who the provider says comes: a person of its own, by default with no word on the address. */
  const come = async (email: string, claims: object = {}, sub: string = randomUUID()) => {
    provider.person = { sub, email, ...claims };
    return told((await aBrowser().go(ssoUrl(server, tenant))).at);
  };
  const find = (email: string) => api.app.transact(({ em }) => em.findOne(User, { email }));
  const aKnown = (email: string, role: Role, status: MemberStatus = "ACTIVE", emailVerified = true) =>
    api.app.transact((work) => {
      const fields = { email, name: "Ada", role, status, emailVerified, passwordHash: null };
      return addUser(work, tenant.tenantId, fields);
    });
  const invite = async (email: string, role: Role) =>
    must(await server.post("/api/v1/team/invitations", { email, role }, { token: tenant.token }), 201);
  const statusOf = async (id: string) =>
    (await api.app.transact(({ em }) => em.findOneOrFail(Invitation, { id }))).status;

  const { api, server, provider } = ssoStage();
  const tenant = madeForEach(() => aTenant(server));
  beforeEach(async () => {
    domain = await aVerifiedDomain(server, tenant);
    await configure();
  });

  describe("an account that a stranger has set up", () => {
    const evil = () => `${randomUUID()}@evil.example`;
    /** Waits to be accepted, with every kind of mailed link that the account can have. */
    const squat = async (email: string) => {
      const body = { email, password: PASSWORD, name: "A squatter", tenantId: tenant.tenantId };
      const { accessToken: token } = must(await server.post("/api/v1/auth/register", body), 201);
      const target = evil();
      const change = { email: target, currentPassword: PASSWORD };
      must(await server.patch("/api/v1/auth/me", change, { token }), 200);
      return { target, token: tokenIn(await aMailTo(target, /./)) };
    };
    const follow = (token: string) => server.post("/api/v1/auth/verify-email", { token });

    it("keeps no link to another address once the person has come through the provider", async () => {
      const email = anAddress();
      const { target, token } = await squat(email);
      assert("access_token" in (await come(email)));
      assertError(await follow(token), 410, "VERIFICATION_TOKEN_EXPIRED");
      assert.equal((await find(email))?.status, "ACTIVE");
      assert.equal(await find(target), null);
    });

    it("is known at none of its addresses any more", async () => {
      const email = anAddress();
      await squat(email);
      const { id } = (await find(email))!;
      const addresses = async () => {
        const rows = await api.sql<{ origin: string }>`
          select origin from known_origins where owner_id = ${id}::uuid`;
        return rows.map(({ origin }) => origin);
      };
      const before = await addresses();
      assert.notEqual(before.length, 0);
      assert("access_token" in (await come(email)));
      const after = await addresses();
      assert.deepEqual(
        before.filter((origin) => after.includes(origin)),
        [],
      );
    });
  });

  describe("somebody of the provider with another's address", () => {
    it("is nobody where the provider says that nobody has verified it, whatever the domain", async () => {
      for (const email_verified of [false, "false"]) {
        assert.equal((await come(tenant.email, { email_verified }))["error"], "email_not_verified");
        const owner = await aKnown(anAddress(), "OWNER");
        assert.equal((await come(owner.email, { email_verified }))["error"], "email_not_verified");
        const nobody = anAddress();
        assert.equal((await come(nobody, { email_verified }))["error"], "email_not_verified");
        assert.equal(await find(nobody), null);
      }
    });

    it("does not matter to who has signed in before", async () => {
      const [email, sub] = [anAddress(), randomUUID()];
      assert("access_token" in (await come(email, {}, sub)));
      assert("access_token" in (await come(email, { email_verified: false }, sub)));
    });

    it("is not signed in as a member who signs in as another person of it", async () => {
      for (const role of ["OWNER", "VIEWER"] as const) {
        const { email } = await aKnown(anAddress(), role);
        const sub = randomUUID();
        assert("access_token" in (await come(email, {}, sub)));
        assert.equal((await come(email))["error"], "identity_already_linked");
        assert.equal((await come(email, { email_verified: true }))["error"], "identity_already_linked");
        assert("access_token" in (await come(email, {}, sub)));
      }
    });

    it("is linked once an ADMIN has suspended the member and let them in again", async () => {
      const { email, id } = await aKnown(anAddress(), "DEVELOPER");
      assert("access_token" in (await come(email)));
      const set = async (status: string) =>
        must(await server.patch(`/api/v1/team/members/${id}`, { status }, { token: tenant.token }), 200);
      await set("SUSPENDED");
      const sub = randomUUID();
      assert.equal((await come(email, {}, sub))["error"], "account_disabled");
      await set("ACTIVE");
      assert("access_token" in (await come(email, {}, sub)));
      assert.equal((await come(email))["error"], "identity_already_linked");
    });

    it("shuts no member out who was suspended meanwhile, under whatever address they come", async () => {
      const { email, id } = await aKnown(anAddress(), "DEVELOPER");
      const sub = randomUUID();
      assert("access_token" in (await come(email, {}, sub)));
      for (const status of ["SUSPENDED", "ACTIVE"])
        must(await server.patch(`/api/v1/team/members/${id}`, { status }, { token: tenant.token }), 200);
      assert("access_token" in (await come(anAddress(), {}, sub)));
      assert.equal((await come(email))["error"], "identity_already_linked", "nobody else any more");
    });

    it("is the same person where the provider names them by their address, in any case", async () => {
      const { email } = await aKnown(anAddress(), "VIEWER");
      assert("access_token" in (await come(email, {}, email)));
      assert("access_token" in (await come(email, {}, email.toUpperCase())));
      assert.equal((await come(email))["error"], "identity_already_linked");
    });

    it("takes no invitation of an address whose domain is another tenant's", async () => {
      const other = await aTenant(server);
      const theirs = await aVerifiedDomain(server, other);
      must(await putSso(server, other, samlConfig(aSigningKey().cert)), 200);
      const email = `ceo@${theirs}`;
      const { id } = await invite(email, "ADMIN");
      assert.equal((await come(email, { email_verified: true }))["error"], "email_domain_not_allowed");
      assert.deepEqual([await find(email), await statusOf(id)], [null, "PENDING"]);
    });

    it("is told of to the member, by mail, when they are linked; new members are not", async () => {
      const { email } = await aKnown(anAddress(), "VIEWER");
      await come(email);
      await aMailTo(email, /single sign-on was linked/);
      const fresh = anAddress();
      await come(fresh);
      const again = anAddress();
      await aKnown(again, "VIEWER");
      await come(again);
      await aMailTo(again, /was linked/);
      assert.deepEqual(mailsTo(fresh), []);
    });
  });

  describe("an address of no domain of the tenant", () => {
    it("is not proved to the rest of the server by the tenant's own provider", async () => {
      const email = `${randomUUID()}@gmail.example`;
      await aKnown(email, "VIEWER", "ACTIVE", false);
      assert("access_token" in (await come(email, { email_verified: true })));
      assert.equal((await find(email))?.emailVerified, false);
      const own = anAddress();
      await aKnown(own, "VIEWER", "ACTIVE", false);
      assert("access_token" in (await come(own)));
      assert.equal((await find(own))?.emailVerified, true);
    });
  });

  describe("somebody who is invited", () => {
    it("becomes a member with the role of the invitation, and in its seat", async () => {
      const email = anAddress();
      await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { members: 2 });
      const { id } = await invite(email, "ADMIN");
      assert("access_token" in (await come(email)));
      assert.equal((await find(email))?.role, "ADMIN");
      assert.equal(await statusOf(id), "ACCEPTED");
    });

    it("does also where nobody else is let in, by the provider's word alone too", async () => {
      await configure({ autoProvision: false });
      const own = anAddress();
      assert.equal((await come(own))["error"], "account_not_found");
      await invite(own, "DEVELOPER");
      assert("access_token" in (await come(own)));
      const foreign = `${randomUUID()}@partner.example`;
      const { id } = await invite(foreign, "VIEWER");
      assert.equal((await come(foreign))["error"], "email_not_verified");
      assert.equal(await statusOf(id), "PENDING");
      assert("access_token" in (await come(foreign, { email_verified: true })));
      assert.deepEqual(await find(foreign).then((user) => [user?.role, user?.emailVerified]), [
        "VIEWER",
        false,
      ]);
    });

    it("and waits to be accepted is accepted by that", async () => {
      await configure({ autoProvision: false });
      const email = anAddress();
      await invite(email, "ADMIN");
      await aKnown(email, "VIEWER", "PENDING", false);
      assert("access_token" in (await come(email)));
      assert.deepEqual(await find(email).then((user) => [user?.role, user?.status]), ["ADMIN", "ACTIVE"]);
    });

    it("becomes OWNER only where the provider itself has verified the address", async () => {
      const [one, two] = [anAddress(), anAddress()];
      await invite(one, "OWNER");
      const { id } = await invite(two, "OWNER");
      assert("access_token" in (await come(one, { email_verified: true })));
      assert("access_token" in (await come(two)));
      assert.deepEqual([(await find(one))?.role, (await find(two))?.role], ["OWNER", "DESIGNER"]);
      assert.equal(await statusOf(id), "REVOKED");
      const [line] = (await auditOf(api, id)).filter(({ action }) => action === "invitation.revoked");
      assert.deepEqual(line?.data, { email: two, role: "OWNER", by: "sso" });
    });

    it("is nobody once the invitation was revoked or is over, or its sender may not invite", async () => {
      await configure({ autoProvision: false });
      const [revoked, over, demoted] = [anAddress(), anAddress(), anAddress()];
      const first = await invite(revoked, "VIEWER");
      must(await server.delete(`/api/v1/team/invitations/${first.id}`, { token: tenant.token }), 200);
      const second = await invite(over, "VIEWER");
      await invite(demoted, "VIEWER");
      await api.app.transact(({ em }) =>
        em.nativeUpdate(Invitation, { id: second.id }, { expiresAt: new Date(0) }),
      );
      for (const email of [revoked, over]) assert.equal((await come(email))["error"], "account_not_found");
      await api.app.transact(({ em }) => em.nativeUpdate(User, { id: tenant.userId }, { role: "VIEWER" }));
      assert.equal((await come(demoted))["error"], "account_not_found");
    });
  });
});
