import assert from "node:assert/strict";
import { randomInt, randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { type GithubPerson, githubServer } from "../support/providers/fake-github.ts";
import { aBrowser, startUrl, told } from "../support/providers/oauth.ts";

describe("sign-in with GitHub", () => {
  const { api, github, server } = githubServer();

  const mail = (email: string, primary: boolean, verified: boolean) => ({
    email,
    primary,
    verified,
    visibility: primary ? "public" : null,
  });
  const aPerson = (emails?: GithubPerson["emails"], profile: Partial<GithubPerson> = {}) => {
    const [login, email] = [randomUUID(), `${randomUUID()}@example.com`];
    const known = emails ?? [mail(`${randomUUID()}@example.com`, false, true), mail(email, true, true)];
    github.people.set(login, {
      id: randomInt(2 ** 40),
      name: "Ada Byron",
      email: null,
      emails: known,
      ...profile,
    });
    return { login, email };
  };
  const tell = async (login: string, flow = "signup") =>
    told((await aBrowser(login).go(startUrl(server, "github", { flow }))).at);
  const user = (email: string) => api.app.transact(({ em }) => em.findOne(User, { email }));

  it("asks for the addresses, with state and PKCE", async () => {
    const { headers } = await aBrowser().visit(startUrl(server, "github"));
    const location = new URL(headers.get("location")!);
    assert.equal(location.origin + location.pathname, `${github.url}/login/oauth/authorize`);
    const { state, code_challenge, ...rest } = Object.fromEntries(location.searchParams);
    for (const secret of [state, code_challenge]) assert.match(secret ?? "", /^[\w-]{43}$/);
    assert.deepEqual(rest, {
      client_id: github.clientId,
      redirect_uri: `${server.url}/api/v1/auth/oauth/github/callback`,
      response_type: "code",
      scope: "read:user user:email",
      code_challenge_method: "S256",
    });
  });

  it("signs up with the primary address, and then logs in", async () => {
    const { login, email } = aPerson();
    assert("access_token" in (await tell(login)));
    const made = await user(email);
    assert.deepEqual([made?.name, made?.role, made?.emailVerified], ["Ada Byron", "OWNER", true]);
    assert("access_token" in (await tell(login, "login")));
    github.people.get(login)!.emails = [];
    assert("access_token" in (await tell(login, "login")), "the number of the account is what counts");
  });

  it("takes no address that is not both primary and verified, and never the one of the profile", async () => {
    const email = `${randomUUID()}@example.com`;
    for (const emails of [
      [],
      [mail(email, true, false)],
      [mail(email, false, true)],
      [mail(email, true, false), mail(`${randomUUID()}@example.com`, false, true)],
    ]) {
      const { login } = aPerson(emails, { email });
      assert.equal((await tell(login))["error"], "email_not_verified");
      assert.equal((await tell(login, "login"))["error"], "email_not_verified");
    }
    assert.equal(await user(email), null);
  });

  it("knows an account by its number: a new name keeps it, who takes the old name gets nothing", async () => {
    const { login } = aPerson();
    await tell(login);
    const renamed = randomUUID();
    github.people.set(renamed, github.people.get(login)!);
    assert("access_token" in (await tell(renamed, "login")));
    github.people.set(login, { id: randomInt(2 ** 40), name: "Eve", email: null, emails: [] });
    assert.equal((await tell(login, "login"))["error"], "email_not_verified");
  });

  it("tells the console what GitHub refuses in a 200", async () => {
    const { login } = aPerson();
    const browser = aBrowser(login);
    const { at } = await browser.go(
      startUrl(server, "github"),
      `${server.url}/api/v1/auth/oauth/github/callback`,
    );
    at.searchParams.set("code", "forged");
    const answer = told((await browser.go(at.href)).at);
    assert.equal(answer["error"], "provider_error");
    assert(!("access_token" in answer));
  });
  for (const [what, status, body] of [
    ["an error", 500, "{}"],
    ["a limit", 403, '{"message":"API rate limit exceeded"}'],
    ["no JSON", 200, "<html>"],
    ["something else", 200, '{"id":"1","login":5}'],
    ["a list", 200, "[]"],
  ] as const) {
    it(`tells the console that the provider failed when its API answers ${what}`, async () => {
      const { login } = aPerson();
      github.trouble.api = { status, body };
      const answer = await tell(login).finally(() => delete github.trouble.api);
      assert.equal(answer["error"], "provider_error");
      assert(!("access_token" in answer));
    });
  }
});
