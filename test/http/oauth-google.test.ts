import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Session } from "../../src/domain/accounts/auth/tokens.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aMailTo, mailsTo, tokenIn } from "../support/mail/mailbox.ts";
import { aBrowser, CONSOLE, startOAuthServer, startUrl, told } from "../support/providers/oauth.ts";
import { type Person, startOpenIdProvider, type TestProvider } from "../support/providers/openid-provider.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const TOKENS = ["access_token", "expires_in", "refresh_token", "token_type"];
const anEmail = () => `${randomUUID()}@example.com`;

describe("sign-in with Google", () => {
  const api = madeOnce(startApp);
  let google: TestProvider;
  const server = madeOnce(() =>
    startOAuthServer(api, async (url) => {
      google = await startOpenIdProvider(`${url}/api/v1/auth/oauth/google/callback`);
      return { google, github: undefined };
    }),
  );
  const tenant = madeOnce(() => aTenant(api));

  const aPerson = (claims: Partial<Person> = {}): Required<Pick<Person, "sub" | "email">> => {
    const person = {
      sub: randomUUID(),
      email: anEmail(),
      email_verified: true,
      name: "Grace Hopper",
      ...claims,
    };
    google.people.set(person.sub, person);
    return person;
  };
  const come = async (sub: string, parameters: Record<string, string> = {}, browser = aBrowser(sub)) =>
    browser.go(startUrl(server, "google", parameters));
  const tell = async (sub: string, parameters: Record<string, string> = {}) =>
    told((await come(sub, parameters)).at);
  const user = (email: string) => api.app.transact(({ em }) => em.findOne(User, { email }));
  const verify = (email: string, isVerified = true) =>
    api.app.transact(({ em }) => em.nativeUpdate(User, { email }, { emailVerified: isVerified }));

  after(async () => {
    await server.close();
    await google.close();
  });

  describe("flow=signup", () => {
    it("creates a tenant and its OWNER with a proved address, and tokens that work", async () => {
      const { sub, email } = aPerson({ email: anEmail().toUpperCase() });
      const { at } = await come(sub, { flow: "signup" });
      assert(at.href.startsWith(CONSOLE));
      const answer = told(at);
      assert.deepEqual(Object.keys(answer).toSorted(), TOKENS);
      assert.equal(answer["token_type"], "Bearer");
      assert.equal(answer["expires_in"], "604800");
      assert.equal((await api.get("/api/v1/projects", { token: answer["access_token"]! })).status, 200);
      const made = await user(email.toLowerCase());
      assert(made);
      assert.deepEqual(
        [made.name, made.role, made.status, made.emailVerified, made.profileCompleted, made.passwordHash],
        ["Grace Hopper", "OWNER", "ACTIVE", true, true, null],
      );
      const opened = await api.app.transact(({ em }) => em.findOne(TenantEntity, { id: made.tenantId }));
      assert.equal(opened?.name, "Grace Hopper");
    });

    it("asks for the profile later where Google tells no name", async () => {
      const { sub, email } = aPerson({ name: "\n" });
      assert("access_token" in (await tell(sub, { flow: "signup" })));
      const made = await user(email);
      assert.equal(made?.profileCompleted, false);
      assert.equal(made.name, email.split("@")[0]);
    });

    it("makes no second account for an identity or an address", async () => {
      const { sub, email } = aPerson();
      assert("access_token" in (await tell(sub, { flow: "signup" })));
      assert.equal((await tell(sub, { flow: "signup" }))["error"], "account_exists");
      const other = aPerson({ email });
      assert.equal((await tell(other.sub, { flow: "signup" }))["error"], "account_exists");
      const registered = aPerson({ email: tenant.email });
      assert.equal((await tell(registered.sub, { flow: "signup" }))["error"], "account_exists");
    });

    it("makes one account of two at once", async () => {
      const { sub } = aPerson();
      const answers = await Promise.all([1, 2].map(() => tell(sub, { flow: "signup" })));
      assert.deepEqual(answers.map((one) => one["error"] ?? "tokens").toSorted(), [
        "account_exists",
        "tokens",
      ]);
    });

    it("refuses throw-away addresses, and addresses that Google does not vouch for", async () => {
      const disposable = aPerson({ email: `${randomUUID()}@mailinator.com` });
      assert.equal((await tell(disposable.sub, { flow: "signup" }))["error"], "email_disposable");
      for (const claims of [{ email_verified: false }, { email: "no address" }]) {
        const { sub } = aPerson(claims);
        assert.equal((await tell(sub, { flow: "signup" }))["error"], "email_not_verified");
      }
    });

    it("counts as a registration: the sixth of an address within an hour is refused", async () => {
      const browser = aBrowser(aPerson().sub);
      const errors: (string | undefined)[] = [];
      for (let at = 0; at < 6; at++)
        errors.push(told((await come("", { flow: "signup" }, browser)).at)["error"]);
      assert.deepEqual(errors, [undefined, ...Array<string>(4).fill("account_exists"), "rate_limited"]);
    });

    it("with an invitation makes a member of that tenant, if the address is the invited one", async () => {
      const { sub, email } = aPerson();
      const invite = () =>
        api.post("/api/v1/team/invitations", { email, role: "DESIGNER" }, { token: tenant.token });
      must(await invite(), 201);
      const invitation_token = tokenIn(await aMailTo(email, /./));
      const stranger = aPerson();
      const refused = await tell(stranger.sub, { flow: "signup", invitation_token });
      assert.equal(refused["error"], "invitation_invalid");
      assert.equal(await user(stranger.email), null);
      const unknown = await tell(stranger.sub, { flow: "signup", invitation_token: "unknown" });
      assert.equal(unknown["error"], "invitation_invalid");
      assert("access_token" in (await tell(sub, { flow: "signup", invitation_token })));
      const member = await user(email);
      assert.deepEqual(
        [member?.tenantId, member?.role, member?.status],
        [tenant.tenantId, "DESIGNER", "ACTIVE"],
      );
    });
  });

  describe("flow=login", () => {
    it("signs in whoever signed up, with a session of its own each time", async () => {
      const { sub, email } = aPerson();
      const first = await tell(sub, { flow: "signup" });
      const second = await tell(sub);
      assert.deepEqual(Object.keys(second).toSorted(), TOKENS);
      assert.notEqual(first["access_token"], second["access_token"]);
      const { id } = (await user(email))!;
      const sessions = await api.app.transact(({ em }) => em.find(Session, { userId: id }));
      assert.deepEqual(pluck(sessions, "method"), ["GOOGLE", "GOOGLE"]);
    });

    it("links the account that has proved the address, and tells its owner by mail", async () => {
      const own = await aTenant(api);
      await verify(own.email);
      const { sub } = aPerson({ email: own.email });
      const answer = await tell(sub);
      const me = await api.get("/api/v1/auth/oauth/identities", { token: answer["access_token"]! });
      assert.deepEqual(pluck(me.body.identities, "provider", "email"), [["google", own.email]]);
      await aMailTo(own.email, /google/i);
      await tell(sub);
      assert.equal(mailsTo(own.email).filter(({ subject }) => /google/i.test(subject ?? "")).length, 1);
    });

    it("links once when two come at once", async () => {
      const own = await aTenant(api);
      await verify(own.email);
      const { sub } = aPerson({ email: own.email });
      for (const answer of await Promise.all([1, 2, 3].map(() => tell(sub))))
        assert("access_token" in answer);
    });

    it("never gives an account that has a Google account to another one with its address", async () => {
      const { sub, email } = aPerson();
      await tell(sub, { flow: "signup" });
      const impostor = aPerson({ email });
      assert.equal((await tell(impostor.sub))["error"], "identity_already_linked");
    });

    it("shuts out disabled users and deleted tenants", async () => {
      const { sub, email } = aPerson();
      await tell(sub, { flow: "signup" });
      const now = new Date();
      await api.app.transact(({ em }) => em.nativeUpdate(User, { email }, { disabledAt: now }));
      assert.equal((await tell(sub))["error"], "account_disabled");
      await api.app.transact(({ em }) => em.nativeUpdate(User, { email }, { disabledAt: null }));
      const { tenantId } = (await user(email))!;
      await api.app.transact(({ em }) => em.nativeUpdate(TenantEntity, { id: tenantId }, { deletedAt: now }));
      assert.equal((await tell(sub))["error"], "account_disabled");
    });
  });
});
