import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress } from "../support/http/client.ts";
import { aMember, aMemberWithPassword } from "../support/app/member.ts";
import { madeOnce } from "../support/made.ts";

const WRONG = "Wrong-horse-7";
const anEmail = () => `${randomUUID()}@example.com`;

describe("POST /auth/login", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const login = (email: string, password: string, address = anAddress()) =>
    api.post("/api/v1/auth/login", { email, password }, { headers: { "X-Forwarded-For": address } });
  const change = (userId: string, values: Partial<User>) =>
    api.app.transact(({ em }) => em.nativeUpdate(User, { id: userId }, values));
  const sidOf = ({ body }: Answer) => decodeJwt<{ sid: string }>(body.accessToken).sid;

  it("gives a token for 7 days and exactly the documented user", async () => {
    const answer = await login(` ${tenant.email.toUpperCase()}`, tenant.password);
    assert.equal(answer.status, 200);
    const { accessToken, refreshToken, ...rest } = answer.body;
    const user = { id: tenant.userId, email: tenant.email, role: "OWNER" };
    assert.deepEqual(rest, { tokenType: "Bearer", expiresIn: 604_800, user });
    assert.match(refreshToken, /^svc_rt_[0-9A-Za-z]{43}$/);
    const { exp, iat } = decodeJwt(accessToken);
    assert.equal(Number(exp) - Number(iat), 604_800);
    assert.equal((await api.get("/api/v1/projects", { token: accessToken })).status, 200);
  });

  it("starts a session of its own each time, whatever the request carries of an older one", async () => {
    const first = await login(tenant.email, tenant.password);
    const { accessToken, refreshToken } = first.body;
    const again = await api.post(
      "/api/v1/auth/login",
      { email: tenant.email, password: tenant.password },
      { token: accessToken, headers: { Cookie: `sid=${sidOf(first)}; refreshToken=${refreshToken}` } },
    );
    assert.equal(again.status, 200);
    assert.notEqual(sidOf(again), sidOf(first));
    assert.notEqual(again.body.refreshToken, refreshToken);
    assert.equal(again.headers.get("set-cookie"), null);
  });

  it("lets members in whom nobody has accepted, or who are suspended: to their own account", async () => {
    for (const status of ["PENDING", "SUSPENDED"] as const) {
      const { tenantId } = tenant;
      const { email, password } = await aMemberWithPassword(api, tenantId, {
        role: "ADMIN",
        password: "Brass-Lantern-58",
        status,
      });
      const { accessToken: token } = (await login(email, password)).body;
      assert.equal((await api.get("/api/v1/auth/me", { token })).body.user.status, status);
      assertError(await api.get("/api/v1/projects", { token }), 403, `MEMBERSHIP_${status}`);
    }
  });

  describe("does not tell who is known:", () => {
    /** People who cannot log in, each for another reason, with the right password where there is one. */
    const nobodies = async (): Promise<[why: string, email: string, password: string][]> => {
      const passwordHash = await api.app.passwords.hash("Brass-Lantern-58");
      const disabled = await aMember(api, tenant.tenantId, "VIEWER");
      await change(disabled.userId, { passwordHash, disabledAt: new Date() });
      const deleted = await aTenant(api);
      await api.app.transact(({ em }) =>
        em.nativeUpdate(TenantEntity, { id: deleted.tenantId }, { deletedAt: new Date() }),
      );
      return [
        ["a wrong password", tenant.email, WRONG],
        ["an unknown address", anEmail(), WRONG],
        ["text that is no address", "no address", WRONG],
        ["a user without a password", (await aMember(api, tenant.tenantId, "VIEWER")).email, ""],
        ["a disabled user", disabled.email, "Brass-Lantern-58"],
        ["a user of a deleted tenant", deleted.email, deleted.password],
      ];
    };

    it("every refusal has the same answer", async () => {
      const bodies = new Set<string>();
      for (const [why, email, password] of await nobodies()) {
        const answer = await login(email, password);
        assertError(answer, 401, "INVALID_CREDENTIALS");
        const { requestId: _, timestamp: __, ...error } = answer.body.error;
        bodies.add(JSON.stringify(error));
        assert.equal(bodies.size, 1, why);
      }
    });
  });

  describe("slows guessing down:", () => {
    const guessUntilStopped = async (email: string, address: string): Promise<Answer> => {
      for (let tries = 0; tries < 9; tries++) {
        const answer = await login(email, WRONG, address);
        if (answer.status === 429) return answer;
      }
      throw new Error("nothing stopped the guessing");
    };

    it("after five wrong passwords the next try waits, with Retry-After, the right one too", async () => {
      const { email, password } = await aTenant(api);
      const address = anAddress();
      const answer = await guessUntilStopped(email, address);
      assertError(answer, 429, "LOGIN_THROTTLED");
      assert.ok(Number(answer.headers.get("retry-after")) >= 1);
      // The wait has grown by now, if a slow machine let it end.
      await guessUntilStopped(email, address);
      assertError(await login(email, password, address), 429, "LOGIN_THROTTLED");
    });

    it("an address has 20 wrong passwords over all accounts, and right ones do not count", async () => {
      const address = anAddress();
      for (let i = 0; i < 19; i++)
        assertError(await login(anEmail(), WRONG, address), 401, "INVALID_CREDENTIALS");
      for (let i = 0; i < 3; i++) {
        assert.equal((await login(tenant.email, tenant.password, address)).status, 200);
      }
      assertError(await login(anEmail(), WRONG, address), 401, "INVALID_CREDENTIALS");
      const last = await login(tenant.email, tenant.password, address);
      assert.ok([403, 429].includes(last.status), JSON.stringify(last.body));
      assert.equal((await login(tenant.email, tenant.password)).status, 200, "from elsewhere");
    });
  });
});
