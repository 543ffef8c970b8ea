import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { startTwoServers, type TwoServers } from "../support/processes/two-servers.ts";
import { assertScimError, mustScim, patchOf, type ScimClient, scimClient } from "../support/scim/provider.ts";

const PASSWORD = "Engine-No-1";

describe("SCIM over two processes", () => {
  let two: TwoServers;
  let domain: string;
  let scims: readonly [ScimClient, ScimClient];
  const scim = (index: number): ScimClient => scims[index % 2]!;
  const address = () => `${randomUUID().slice(0, 13)}@${domain}`;
  const db = () => two.database.em.fork().getKysely();

  before(async () => {
    two = await startTwoServers({ env: { EMAIL_MODE: "off", DEFAULT_PLAN: "ENTERPRISE" } });
    domain = `acme-${randomUUID().slice(0, 8)}.com`;
    const [client] = two.clients;
    const fields = { name: "Ada", password: PASSWORD, tenantName: "Acme" };
    const email = `${randomUUID()}@example.com`;
    const { accessToken: token, user } = must(
      await client.post("/api/v1/auth/register", { ...fields, email }),
      201,
    );
    await sql`
      insert into sso_domains (id, tenant_id, domain, token, verified_at, created_at)
      values (gen_random_uuid(), ${user.tenantId}::uuid, ${domain}, 'x', now(), now())`.execute(db());
    const made = must(await client.post("/api/v1/enterprise/scim/tokens", { name: "Okta" }, { token }), 201);
    scims = [scimClient(two.clients[0].url, made.token), scimClient(two.clients[1].url, made.token)];
  });
  after(() => two?.stop());

  it("makes one user of one userName, and one group of one name", async () => {
    const [userName, displayName] = [address(), "Developers"];
    const at = [...Array(10).keys()];
    const users = await Promise.all(at.map((n) => scim(n)("POST", "/Users", { userName })));
    const groups = await Promise.all(at.map((n) => scim(n)("POST", "/Groups", { displayName })));
    for (const answers of [users, groups]) {
      assert.equal(answers.filter(({ status }) => status === 201).length, 1);
      for (const answer of answers.filter(({ status }) => status !== 201))
        assertScimError(answer, 409, "uniqueness");
    }
    assert.equal(mustScim(await scim(0)("GET", "/Users"), 200).totalResults, 1);
  });

  it("loses no member of a group that all change at once", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 6; n++)
      ids.push(mustScim(await scim(n)("POST", "/Users", { userName: address() }), 201).id);
    const { id } = mustScim(await scim(0)("POST", "/Groups", { displayName: randomUUID() }), 201);
    const add = (value: string) => patchOf({ op: "add", path: "members", value: [{ value }] });
    const answers = await Promise.all(ids.map((one, n) => scim(n)("PATCH", `/Groups/${id}`, add(one))));
    for (const answer of answers) mustScim(answer, 204);
    assert.equal(mustScim(await scim(1)("GET", `/Groups/${id}`), 200).members.length, 6);
  });

  it("ends a deactivated person's session at once where it is done, and soon everywhere", async () => {
    const userName = address();
    const { id } = mustScim(await scim(0)("POST", "/Users", { userName }), 201);
    // They have a password, as somebody who was a member before.
    await sql`
      update users set password_hash = (
        select password_hash from users where password_hash is not null limit 1)
      where id = ${id}::uuid`.execute(db());
    const login = await two.clients[0].post("/api/v1/auth/login", { email: userName, password: PASSWORD });
    const { accessToken: token } = must(login, 200);
    const me = (index: 0 | 1) => two.clients[index].get("/api/v1/auth/me", { token });
    must(await me(0), 200);
    must(await me(1), 200);
    const off = patchOf({ op: "Replace", path: "active", value: "False" });
    mustScim(await scim(0)("PATCH", `/Users/${id}`, off), 200);
    must(await me(0), 401);
    await eventually(async () => (await me(1)).status === 401);
  });
});
