import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { type Answer, aTenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aBrowser, startUrl, told } from "../support/providers/oauth.ts";
import { anInvitation } from "../support/operations/sso.ts";
import { githubServer } from "../support/providers/fake-github.ts";

const PASSWORD = "Difference-Engine-2";
const TOKEN = /^[\w-]{43}$/;

type Account = { email: string; password: string };

describe("the device of every way to sign in", () => {
  const { api, server, addPerson } = githubServer();

  const login = ({ email, password }: Account, device = "") => {
    const headers = { "X-Forwarded-For": anAddress(), "X-Device-Token": device };
    return api.post("/api/v1/auth/login", { email, password }, { headers });
  };
  /** Guesses at a password from ever new addresses, until no stranger may try any more. */
  const hammer = async (email: string): Promise<void> => {
    for (let i = 0; i < LIMITS.loginAccount.points; i++) await login({ email, password: "Wrong-horse-7" });
    assertError(await login({ email, password: PASSWORD }), 429, "LOGIN_THROTTLED");
  };
  const deviceOf = ({ headers }: Answer): string => {
    const device = headers.get("x-device-token") ?? "";
    assert.match(device, TOKEN);
    return device;
  };
  const post = (path: string, body: object, device = "") =>
    api.post(`/api/v1/auth/${path}`, body, { headers: { "X-Device-Token": device } });
  const isLetIn = async (account: Account, device: string): Promise<void> => {
    await hammer(account.email);
    assert.equal(deviceOf(await login(account, device)), device);
  };

  /** An account that a person of the provider, who has proved its address, signs in to. */
  const aPerson = async (): Promise<Account & { sub: string }> => {
    const { email, password } = await aTenant(api);
    const sub = randomUUID();
    addPerson(sub, email);
    await api.app.transact(({ em }) => em.nativeUpdate(User, { email }, { emailVerified: true }));
    return { email, password, sub };
  };
  const come = async (sub: string, parameters: Record<string, string>) =>
    told((await aBrowser(sub).go(startUrl(server, "github", parameters))).at);

  it("is known after registering", async () => {
    const account = { email: `${randomUUID()}@example.com`, password: PASSWORD };
    const headers = { "X-Forwarded-For": anAddress() };
    const answer = await api.post("/api/v1/auth/register", { ...account, name: "Ada" }, { headers });
    must(answer, 201);
    await isLetIn(account, deviceOf(answer));
  });

  it("is known after accepting an invitation", async () => {
    const { token, email } = await anInvitation(await aTenant(api));
    const body = { token, name: "Grace", password: PASSWORD };
    const answer = await api.post("/api/v1/team/invitations/accept", body);
    must(answer, 200);
    await isLetIn({ email, password: PASSWORD }, deviceOf(answer));
  });

  it("is known after a provider's code was exchanged, and keeps the token that it has", async () => {
    const { sub, ...account } = await aPerson();
    const exchange = async (device?: string) => {
      const { code } = await come(sub, { response_mode: "code" });
      const answer = await post("oauth/exchange", { code }, device);
      must(answer, 200);
      return deviceOf(answer);
    };
    const device = await exchange();
    assert.equal(await exchange(device), device);
    assert.notEqual(await exchange("A".repeat(43)), "A".repeat(43), "nobody chooses their own");
    await isLetIn(account, device);
  });

  it("is known after tokens that came in an address were renewed, and by that alone", async () => {
    const { sub, ...account } = await aPerson();
    const { refresh_token: refreshToken = "", ...rest } = await come(sub, {});
    assert.deepEqual(Object.keys(rest).toSorted(), ["access_token", "expires_in", "token_type"]);
    const first = await post("refresh", { refreshToken });
    const next = await post("refresh", { refreshToken: must(first, 200).refreshToken });
    must(next, 200);
    assert.equal(next.headers.get("x-device-token"), null);
    await isLetIn(account, deviceOf(first));
  });
});
