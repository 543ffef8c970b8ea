import assert from "node:assert/strict";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import {
  anAuthenticator,
  type Authenticator,
  passkeyOptions,
  type Twist,
  withPasskey,
  withTotp,
} from "../support/mfa/second-factor.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const MFA = "/api/v1/auth/mfa";
const LOGIN = "/api/v1/auth/login";

describe("passkeys", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const own = () => ({ token: tenant.token });
  const factors = async () => must(await api.get(MFA, own()), 200);
  const begin = (more: object = {}): Promise<Answer> =>
    api.post(`${MFA}/passkeys/options`, { currentPassword: tenant.password, ...more }, own());
  const add = (credential: object, name = "A phone"): Promise<Answer> =>
    api.post(`${MFA}/passkeys`, { name, credential }, own());
  const enter = (credential: object): Promise<Answer> =>
    api.post("/api/v1/auth/passkeys/login", { credential });
  const challenge = async (): Promise<string> => {
    const { email, password } = tenant;
    const answer = await api.post(LOGIN, { email, password });
    assertError(answer, 401, "MFA_REQUIRED");
    return answer.body.error.challenge.token;
  };
  const complete = (challengeToken: string, passkey: object): Promise<Answer> =>
    api.post(`${LOGIN}/mfa`, { challengeToken, passkey }, { headers: { "X-Forwarded-For": anAddress() } });

  describe("when one is made", () => {
    it("the options ask for a discoverable, verifying one, and exclude those that are there", async () => {
      const options = must(await begin(), 200);
      assert.equal(options.rp.id, "localhost");
      assert.deepEqual(options.authenticatorSelection.residentKey, "required");
      assert.deepEqual(options.authenticatorSelection.userVerification, "required");
      assert.deepEqual(options.excludeCredentials, []);
      assert.equal(Buffer.from(options.user.id, "base64url").toString(), tenant.userId);
      const authenticator = anAuthenticator(api);
      const { passkey, recoveryCodes } = must(await add(authenticator.create(options), "Ada's phone"), 201);
      assert.equal(recoveryCodes.length, 10);
      assert.equal(passkey.name, "Ada's phone");
      assert.deepEqual((await factors()).passkeys, [passkey]);
      const again = must(await begin(), 200);
      const [excluded] = again.excludeCredentials;
      assert.equal(excluded.id, authenticator.id.toString("base64url"));
      assertError(await add(authenticator.create(again)), 409, "ALREADY_EXISTS");
      await aMailTo(tenant.email, /A passkey was added/);
      const log = must(await api.get("/api/v1/audit-log?action=user.passkey_added", own()), 200);
      assert.deepEqual(log.data[0].data, { passkeyId: passkey.id, name: "Ada's phone" });
    });

    it("what another origin, host or ceremony made is refused, and what verified nobody", async () => {
      const twists: Twist[] = [
        { origin: "https://evil.example.com" },
        { origin: "http://localhost.evil.example.com" },
        { rpId: "evil.example.com" },
        { type: "webauthn.get" },
        { isVerified: false },
        { fmt: "packed" },
        { fmt: "android-safetynet" },
        { fmt: "packed", attStmt: new Map([["x5c", Buffer.from("certificate")]]) },
      ];
      for (const twist of twists) {
        const options = must(await begin(), 200);
        const answer = await add(anAuthenticator(api).create(options, twist));
        assertError(answer, 400, "PASSKEY_INVALID");
      }
      assert.equal((await factors()).enabled, false);
    });

    it("a challenge is good once, for its account, and to make one alone", async () => {
      const options = must(await begin(), 200);
      const broken = anAuthenticator(api).create(options, { rpId: "evil.example.com" });
      assertError(await add(broken), 400, "PASSKEY_INVALID");
      assertError(await add(anAuthenticator(api).create(options)), 400, "PASSKEY_INVALID");
      const other = await aTenant(api);
      const asked = { currentPassword: other.password };
      const theirs = must(await api.post(`${MFA}/passkeys/options`, asked, { token: other.token }), 200);
      const forLogin = await passkeyOptions(api);
      const made = { challenge: Buffer.from("made up").toString("base64url") };
      for (const wrong of [theirs, forLogin, made])
        assertError(await add(anAuthenticator(api).create(wrong)), 400, "PASSKEY_INVALID");
    });

    it("an account has twenty", async () => {
      const { authenticator } = await withPasskey(api, tenant);
      await api.sql`insert into passkeys select gen_random_uuid(), owner_id, user_id, admin_id, tenant_id, name,
          credential_id || n, public_key, counter, transports, is_backed_up, created_at, last_used_at
        from passkeys, generate_series(1, 19) n where owner_id = ${tenant.userId}::uuid`;
      assertError(
        await begin({ passkey: authenticator.get(await passkeyOptions(api)) }),
        409,
        "LIMIT_REACHED",
      );
    });
  });

  describe("as the only factor", () => {
    let authenticator: Authenticator;
    beforeEach(async () => {
      ({ authenticator } = await withPasskey(api, tenant));
    });

    it("sign their owner in without a password, and need no further factor", async () => {
      const answer = await enter(authenticator.get(await passkeyOptions(api)));
      const { accessToken, user } = must(answer, 200);
      assert.deepEqual(user, { id: tenant.userId, email: tenant.email, role: "OWNER" });
      const sessions = must(await api.get("/api/v1/auth/sessions", { token: accessToken }), 200);
      const current = sessions.data.find((one: { current: boolean }) => one.current);
      assert.equal(current.method, "PASSKEY");
      const [passkey] = (await factors()).passkeys;
      assert.notEqual(passkey.lastUsedAt, null);
    });

    it("are refused from another origin or host, unverified, or with another's name", async () => {
      const twists: Twist[] = [
        { origin: "https://evil.example.com" },
        { rpId: "evil.example.com" },
        { isVerified: false },
        { type: "webauthn.create" },
        { userHandle: Buffer.from("somebody else").toString("base64url") },
      ];
      for (const twist of twists)
        assertError(await enter(authenticator.get(await passkeyOptions(api), twist)), 401, "PASSKEY_INVALID");
    });

    it("are refused with a challenge that was used, made up, prolonged, or for another purpose", async () => {
      const options = await passkeyOptions(api);
      must(await enter(authenticator.get(options)), 200);
      assertError(await enter(authenticator.get(options)), 401, "PASSKEY_INVALID");
      const asked = { passkey: authenticator.get(await passkeyOptions(api)) };
      const forMaking = must(await begin(asked), 200);
      const made = { challenge: Buffer.alloc(54).toString("base64url") };
      for (const wrong of [forMaking, made])
        assertError(await enter(authenticator.get(wrong)), 401, "PASSKEY_INVALID");
      // The end is in the challenge itself and signed: moving it breaks the signature.
      const bytes = Buffer.from((await passkeyOptions(api)).challenge, "base64url");
      bytes.writeUIntBE(bytes.readUIntBE(16, 6) + 60_000, 16, 6);
      const moved = { challenge: bytes.toString("base64url") };
      assertError(await enter(authenticator.get(moved)), 401, "PASSKEY_INVALID");
    });

    it("a counter that stands still or goes back is refused: somebody has a copy", async () => {
      authenticator.counter = 40;
      must(await enter(authenticator.get(await passkeyOptions(api))), 200);
      for (const counter of [41, 40, 7, 0])
        assertError(
          await enter(authenticator.get(await passkeyOptions(api), { counter })),
          401,
          "PASSKEY_INVALID",
        );
      authenticator.counter = 41;
      must(await enter(authenticator.get(await passkeyOptions(api))), 200);
    });

    it("a signature that is not the passkey's is refused", async () => {
      const options = await passkeyOptions(api);
      const stranger = anAuthenticator(api);
      const forged = stranger.get(options);
      const id = authenticator.id.toString("base64url");
      assertError(await enter({ ...forged, id, rawId: id }), 401, "PASSKEY_INVALID");
      assertError(await enter(stranger.get(await passkeyOptions(api))), 401, "PASSKEY_INVALID");
      assertError(await enter({}), 400);
    });

    it("do not sign in who is disabled", async () => {
      await api.sql`update users set disabled_at = now() where id = ${tenant.userId}::uuid`;
      assertError(await enter(authenticator.get(await passkeyOptions(api))), 401, "PASSKEY_INVALID");
    });
  });

  describe("as a second factor", () => {
    it("complete the login of their owner, not of anybody else", async () => {
      const { authenticator } = await withPasskey(api, tenant);
      const other = await withPasskey(api, await aTenant(api));
      const token = await challenge();
      const theirs = other.authenticator.get(await passkeyOptions(api));
      assertError(await complete(token, theirs), 401, "MFA_CODE_INVALID");
      must(await complete(token, authenticator.get(await passkeyOptions(api))), 200);
    });

    it("stand beside codes of an app and recovery codes", async () => {
      const factor = await withTotp(api, tenant);
      const { authenticator, recoveryCodes } = await withPasskey(api, tenant);
      assert.equal(recoveryCodes, undefined);
      const { email, password } = tenant;
      const answer = await api.post(LOGIN, { email, password });
      assert.deepEqual(answer.body.error.challenge.methods, ["TOTP", "PASSKEY", "RECOVERY_CODE"]);
      must(await complete(await challenge(), authenticator.get(await passkeyOptions(api))), 200);
      must(await api.post(LOGIN, { email, password, mfaCode: factor.recoveryCodes[0] }), 200);
    });

    it("one of code and passkey is sent", async () => {
      const { authenticator } = await withPasskey(api, tenant);
      const passkey = authenticator.get(await passkeyOptions(api));
      const challengeToken = await challenge();
      assertError(await api.post(`${LOGIN}/mfa`, { challengeToken, passkey, code: "123456" }), 400);
    });
  });

  describe("several of one account", () => {
    it("are named, renamed and removed; the last one takes the recovery codes with it", async () => {
      const first = await withPasskey(api, tenant);
      const second = await withPasskey(api, tenant);
      const path = (id: string) => `${MFA}/passkeys/${id}`;
      const renamed = must(await api.patch(path(second.passkeyId), { name: "A key" }, own()), 200);
      assert.equal(renamed.name, "A key");
      const names = (await factors()).passkeys.map(({ name }: { name: string }) => name);
      assert.deepEqual(names, ["A phone", "A key"]);
      const asked = { ...own(), body: { currentPassword: tenant.password } };
      assertError(await api.delete(path(first.passkeyId), { ...own(), body: {} }), 400);
      must(await api.delete(path(first.passkeyId), asked), 200);
      assertError(await enter(first.authenticator.get(await passkeyOptions(api))), 401, "PASSKEY_INVALID");
      must(await enter(second.authenticator.get(await passkeyOptions(api))), 200);
      must(await api.delete(path(second.passkeyId), asked), 200);
      assert.deepEqual(await factors(), {
        enabled: false,
        required: false,
        totp: null,
        passkeys: [],
        recoveryCodesLeft: 0,
      });
      await aMailTo(tenant.email, /A passkey was removed/);
    });

    it("another account's is not found, not even by its tenant's OWNER", async () => {
      const other = await aTenant(api);
      const { passkeyId } = await withPasskey(api, other);
      const path = `${MFA}/passkeys/${passkeyId}`;
      const body = { currentPassword: tenant.password };
      assertError(await api.patch(path, { name: "Mine" }, own()), 404);
      assertError(await api.delete(path, { ...own(), body }), 404);
      assertError(await api.delete(`${MFA}/passkeys/none`, { ...own(), body }), 404);
    });
  });
});
