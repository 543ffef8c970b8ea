import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { authenticateKey, forgetKeys } from "../../src/domain/accounts/api-keys/authenticate.ts";
import { newSecret } from "../../src/domain/accounts/api-keys/api-key.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import type { TransactAs } from "../../src/domain/kernel/work.ts";
import { createLog } from "../../src/log.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventually } from "../support/eventually.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

/** More of a key than the prefix that is shown to tell keys apart. */
const SECRET = /svc_(live|test)_[0-9A-Za-z]{9,}/;

describe("the secret of an API key", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  it("counts in X-API-Key alone, never in the address or in Authorization", async () => {
    const { key } = tenant;
    for (const query of ["apiKey", "api_key", "key", "X-API-Key", "x-api-key", "access_token"]) {
      const answer = await api.get(`/api/v1/projects?${query}=${key}`, { isUnchecked: true });
      assertError(answer, 401, "CREDENTIALS_MISSING");
    }
    const basic = Buffer.from(`${key}:`).toString("base64");
    for (const Authorization of [key, `Bearer ${key}`, `Basic ${basic}`, `ApiKey ${key}`])
      assertError(await api.get("/api/v1/projects", { headers: { Authorization } }), 401, "TOKEN_INVALID");
    const both = { key, headers: { Authorization: `Bearer ${key}` } };
    assertError(await api.get("/api/v1/projects", both), 401, "CREDENTIALS_AMBIGUOUS");
  });

  it("is in no log line about a command of Redis that failed: it is named without its arguments", () => {
    const lines: string[] = [];
    const log = createLog({ logLevel: "info" }, { write: (line) => void lines.push(line) });
    const failed = (args: string[]) =>
      Object.assign(new Error("ERR wrong"), { command: { name: "set", args }, previousErrors: [{ args }] });
    log.error({ err: failed(["a-name", "hunter2"]) }, "it failed");
    const { err } = JSON.parse(lines[0]!) as { err: { message: string; command: string } };
    assert.deepEqual([err.message, err.command], ["ERR wrong", "set"]);
    assert.ok(!lines[0]!.includes("hunter2"), lines[0]);
  });

  it("is in no log line and in no error, wherever it was sent", async () => {
    const lines: string[] = [];
    const log = createLog({ logLevel: "trace" }, { write: (line) => void lines.push(line) });
    const server = await anotherServer(api, {}, { log });
    const { key, token, projectId } = tenant;
    const unknown = newSecret("live");
    const last = `last-${randomUUID()}`;
    const text: string[] = [];
    for (const secret of [key, unknown, `${key}x`]) {
      for (const [path, request] of [
        ["/api/v1/projects", { key: secret }],
        [`/api/v1/projects?apiKey=${secret}`, {}],
        [`/api/v1/projects/${secret}`, { token }],
        [`/api/v1/players/${secret}`, { key }],
        [`/nowhere/${secret}`, {}],
        ["/api/v1/projects", { headers: { Authorization: `Bearer ${secret}` } }],
        ["/api/v1/projects", { headers: { Authorization: secret } }],
        ["/api/v1/players", { key, headers: { "X-Project-ID": secret } }],
        ["/api/v1/players", { key, headers: { "User-Agent": secret, Origin: secret } }],
      ] as const) {
        const answer = await server.get(path, { ...request, isUnchecked: true });
        if (answer.status >= 400) text.push(JSON.stringify(answer.body));
      }
      const body = { name: "x", scopes: [secret] };
      text.push(
        JSON.stringify((await server.post(`/api/v1/projects/${projectId}/api-keys`, body, { token })).body),
      );
    }
    const headers = { "X-Request-Id": last };
    await server.get("/api/v1/projects", { key, headers });
    await eventually(() => lines.some((line) => line.includes(last)));
    assert(lines.length >= 27);
    assert.deepEqual(
      lines.filter((line) => SECRET.test(line)),
      [],
    );
    // What a caller wrote into a scope is shown to this caller; a key in a header never is.
    assert(!text.some((one) => one.includes(key) && !one.includes("scopes.0")));
  });

  it("is refused without the database when it is malformed or its checksum is wrong", async () => {
    const { key } = tenant;
    const refuse = () => assert.fail("no transaction for a malformed key");
    const swapped = key.slice(0, 20) + (key[20] === "a" ? "b" : "a") + key.slice(21);
    const malformed = [
      "",
      " ",
      key.slice(1),
      `${key}0`,
      key.toUpperCase(),
      key.replace("svc", "sk"),
      swapped,
    ];
    for (const text of [...malformed, key.replace("live", "test"), "x".repeat(5_000), `${key}\u0000`])
      await assert.rejects(authenticateKey(refuse, api.app.apiKeys, text), /unknown/);
    // The same over HTTP: of what a request asks the database before, nothing is about keys.
    const statements = { count: 0 };
    const transactAs: TransactAs = (scope) => (run) => {
      statements.count++;
      return api.app.transactAs(scope)(run);
    };
    const server = await anotherServer(api, {}, { transactAs });
    const costOf = async (secret: string): Promise<number> => {
      await server.get("/api/v1/projects", { key: newSecret("live") });
      const before = statements.count;
      assertError(await server.get("/api/v1/projects", { key: secret }), 401, "API_KEY_INVALID");
      return statements.count - before;
    };
    assert.equal((await costOf(newSecret("live"))) - (await costOf(swapped)), 1);
  });

  it("of one project is refused with another project in X-Project-ID, also of the same tenant", async () => {
    const other = await aTenant(api);
    const { token, key } = tenant;
    const second = (await api.post("/api/v1/projects", { name: "Second" }, { token })).body;
    for (const project of [other.projectId, second.id, randomUUID(), "x"]) {
      const headers = { "X-Project-ID": project };
      assertError(await api.get("/api/v1/players", { key, headers }), 403, "PROJECT_MISMATCH");
    }
    const headers = { "X-Project-ID": tenant.projectId };
    assert.equal((await api.get("/api/v1/players", { key, headers })).status, 200);
    const test = await aKey(api, { token, projectId: tenant.projectId, environment: "test" });
    assert.equal((await api.get("/api/v1/players", { key: test, headers })).status, 200);
  });

  it("is answered by 403, not served, while its tenant is suspended", async () => {
    const { key, tenantId } = tenant;
    const change = { approvalStatus: "SUSPENDED" } as const;
    await api.app.transact(({ em }) => em.nativeUpdate(TenantEntity, { id: tenantId }, change));
    forgetKeys();
    assertError(await api.get("/api/v1/projects", { key }), 403, "TENANT_SUSPENDED");
  });
});
