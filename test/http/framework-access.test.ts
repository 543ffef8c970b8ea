import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { sql } from "kysely";
import { z } from "zod";
import type { Access, Role } from "../../src/domain/kernel/caller.ts";
import { startSession } from "../../src/domain/accounts/auth/sessions.ts";
import { addUser as addMember } from "../../src/domain/accounts/tenants/tenant.ts";
import { createApiKeyHasher, newSecret, prefixOf } from "../../src/domain/accounts/api-keys/api-key.ts";
import { createTokens, type Tokens } from "../../src/domain/accounts/auth/tokens.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { type ProjectSource, route } from "../../src/http/route.ts";
import { startTinyHttp, type TinyHttp } from "../support/http/tiny-http.ts";
import { openMemoryDatabase } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

const operation = (id: string, access: Access, project: ProjectSource, path = `/${id}`) =>
  route({
    method: "post",
    path,
    id,
    tag: "Test",
    summary: "A test operation",
    access,
    project,
    ...(project === "path" ? { params: z.object({ projectId: z.string() }) } : {}),
    body: z.object({ must: z.string().optional() }),
    response: z.unknown(),
    outside: async (_app, { caller, projectId }) => ({ caller, projectId }),
  });

const BOTH: Access = { scope: "config:read", roles: ["OWNER", "DESIGNER"] };
const routes = [
  operation("both", BOTH, "caller"),
  operation("tenant", BOTH, "none"),
  operation("inPath", BOTH, "path", "/projects/{projectId}/x"),
  operation("usersOnly", { roles: ["OWNER"] }, "none"),
  operation("twoScopes", { ...BOTH, needs: { scope: "events:write" } }, "caller"),
  operation("keysOnly", { scope: "config:read" }, "caller"),
];
const clock = () => new Date();
const hasher = createApiKeyHasher(["p".repeat(32)]);

type Ids = { tenant: string; project: string; other: string; foreign: string };

const addTenant = async ({ db, now }: Work, tenant: string, projects: readonly string[]): Promise<void> => {
  const at = now.toISOString();
  await sql`insert into tenants (id, name, approval_status, plan, created_at, updated_at)
    values (${tenant}, 'Studio', 'APPROVED', 'ENTERPRISE', ${at}, ${at})`.execute(db);
  for (const project of projects) {
    await sql`insert into projects (id, tenant_id, name, created_at, updated_at)
      values (${project}, ${tenant}, 'Game', ${at}, ${at})`.execute(db);
  }
};

const addKey = async ({ db, now }: Work, project: string, scopes: string): Promise<string> => {
  const secret = newSecret("live");
  const at = now.toISOString();
  await sql`insert into api_keys
    (id, project_id, acts_on_project_id, name, prefix, secret_hash, scopes, status, created_at, updated_at)
    values (${newId()}, ${project}, ${project}, 'Key', ${prefixOf(secret)}, ${hasher.hash(secret)},
      ${scopes}::text[], 'ACTIVE', ${at}, ${at})`.execute(db);
  return secret;
};

const addUser = async (work: Work, tokens: Tokens, tenant: string, role: Role): Promise<string> => {
  const email = `${newId()}@example.com`;
  const user = await addMember(work, tenant, {
    email,
    name: "User",
    passwordHash: null,
    role,
    status: "ACTIVE",
    emailVerified: true,
  });
  return (await startSession(work, tokens, user, { method: "PASSWORD" })).accessToken;
};

describe("HTTP access", () => {
  const ids: Ids = { tenant: newId(), project: newId(), other: newId(), foreign: newId() };
  const lone = { tenant: newId(), project: newId() };
  const tokens = createTokens({
    privateKey: generateKeyPairSync("ed25519").privateKey,
    issuer: "http://test",
    clock,
  });
  let http: TinyHttp;
  let key: string;
  let weakKey: string;
  let strongKey: string;
  let designer: string;
  let viewer: string;
  let loneOwner: string;

  const database = madeOnce(openMemoryDatabase);
  before(async () => {
    const parts = {
      em: database.em,
      clock,
      wakeUps: NO_WAKE_UPS,
      onError: (error: unknown) => assert.fail(String(error)),
    };
    const transact = createTransact(parts);
    await transact(async (work) => {
      await addTenant(work, ids.tenant, [ids.project, ids.other]);
      await addTenant(work, newId(), [ids.foreign]);
      await addTenant(work, lone.tenant, [lone.project]);
      key = await addKey(work, ids.project, "{config:read}");
      weakKey = await addKey(work, ids.project, "{events:write}");
      strongKey = await addKey(work, ids.project, "{config:read,events:write}");
      designer = await addUser(work, tokens, ids.tenant, "DESIGNER");
      viewer = await addUser(work, tokens, ids.tenant, "VIEWER");
      loneOwner = await addUser(work, tokens, lone.tenant, "OWNER");
    });
    http = await startTinyHttp(routes, {
      transact,
      transactAs: (scope) => createTransact(parts, scope),
      tokens,
      apiKeys: hasher,
      clock,
    });
  });
  after(async () => {
    await http.close();
    await database.close();
  });

  const call = async (path: string, headers: Record<string, string>, body = "{}") => {
    const { status, json } = await http.send("POST", path, { headers, body });
    return {
      status,
      reason: json.error?.reason as string | undefined,
      projectId: json.projectId as string,
      json,
    };
  };
  const byKey = (secret: string, more = {}) => ({ "X-API-Key": secret, ...more });
  const byUser = (token: string, more = {}) => ({ Authorization: `Bearer ${token}`, ...more });

  it("answers 401 without credentials, with two, and with what is no credential", async () => {
    assert.deepEqual(await pick(call("/both", {})), [401, "CREDENTIALS_MISSING"]);
    assert.deepEqual(await pick(call("/both", byKey(""))), [401, "CREDENTIALS_MISSING"]);
    assert.deepEqual(await pick(call("/both", { ...byKey(key), ...byUser(designer) })), [
      401,
      "CREDENTIALS_AMBIGUOUS",
    ]);
    assert.deepEqual(await pick(call("/both", byKey("svc_live_nonsense"))), [401, "API_KEY_INVALID"]);
    assert.deepEqual(await pick(call("/both", byUser(key))), [401, "TOKEN_INVALID"]);
    assert.deepEqual(await pick(call("/both", { Authorization: `Basic ${designer}` })), [
      401,
      "TOKEN_INVALID",
    ]);
    assert.deepEqual(await pick(call(`/both?apiKey=${key}`, {})), [401, "CREDENTIALS_MISSING"]);
  });

  it("says how to send credentials that came in the wrong place", async () => {
    const told = async (path: string, headers: Record<string, string>): Promise<string> =>
      (await call(path, headers)).json.error.message;
    assert.match(await told("/both", byUser(key)), /an API key: send it in the header X-API-Key/);
    assert.match(await told("/both", { Authorization: key }), /an API key: send it in the header X-API-Key/);
    assert.match(await told("/both", byKey(designer)), /an access token: send it as Authorization: Bearer/);
    assert.match(
      await told("/usersOnly", byKey(key)),
      /access token of a user.* POST \/auth\/login.* OWNER$/,
    );
  });

  it("lets a key pass by both scopes alone where an operation names a second one, and a user by the role", async () => {
    for (const one of [key, weakKey])
      assert.deepEqual(await pick(call("/twoScopes", byKey(one))), [403, "INSUFFICIENT_SCOPE"]);
    assert.equal((await call("/twoScopes", byKey(strongKey))).status, 200);
    assert.equal((await call("/twoScopes", byUser(designer, { "X-Project-ID": ids.project }))).status, 200);
  });

  it("lets a key pass by its scope and a user by the role", async () => {
    assert.equal((await call("/both", byKey(key))).status, 200);
    assert.deepEqual(await pick(call("/both", byKey(weakKey))), [403, "INSUFFICIENT_SCOPE"]);
    assert.deepEqual(await pick(call("/usersOnly", byKey(key))), [403, "INSUFFICIENT_SCOPE"]);
    assert.equal((await call("/tenant", byUser(designer))).status, 200);
    assert.deepEqual(await pick(call("/tenant", byUser(viewer))), [403, "INSUFFICIENT_ROLE"]);
    assert.deepEqual(await pick(call("/usersOnly", byUser(designer))), [403, "INSUFFICIENT_ROLE"]);
    assert.deepEqual(await pick(call("/keysOnly", byUser(designer))), [403, "INSUFFICIENT_ROLE"]);
  });

  it("takes a key's own project and refuses another in the header", async () => {
    assert.equal((await call("/both", byKey(key))).projectId, ids.project);
    assert.equal((await call("/both", byKey(key, { "X-Project-ID": ids.project }))).projectId, ids.project);
    assert.deepEqual(await pick(call("/both", byKey(key, { "X-Project-ID": ids.other }))), [
      403,
      "PROJECT_MISMATCH",
    ]);
    assert.equal((await call("/tenant", byKey(key, { "X-Project-ID": ids.other }))).status, 200);
    const inPath = `/projects/${ids.project}/x`;
    assert.equal((await call(inPath, byKey(key))).projectId, ids.project);
    assert.equal((await call(`/projects/${ids.other}/x`, byKey(key))).status, 404);
    assert.deepEqual(await pick(call(inPath, byKey(key, { "X-Project-ID": ids.other }))), [
      403,
      "PROJECT_MISMATCH",
    ]);
  });

  it("takes a user's project from the path, the header, the query, or the only one there is", async () => {
    const header = { "X-Project-ID": ids.other };
    assert.equal((await call(`/projects/${ids.project}/x`, byUser(designer, header))).projectId, ids.project);
    assert.equal(
      (await call(`/both?projectId=${ids.project}`, byUser(designer, header))).projectId,
      ids.other,
    );
    assert.equal((await call(`/both?projectId=${ids.project}`, byUser(designer))).projectId, ids.project);
    assert.deepEqual(await pick(call("/both", byUser(designer))), [400, "PROJECT_REQUIRED"]);
    assert.equal((await call("/both", byUser(loneOwner))).projectId, lone.project);
  });

  it("answers the same for a project of another tenant, an unknown one and what is no id", async () => {
    for (const id of [ids.foreign, newId(), "nonsense"]) {
      const inPath = await call(`/projects/${id}/x`, byUser(designer));
      const inHeader = await call("/both", byUser(designer, { "X-Project-ID": id }));
      for (const { status, json } of [inPath, inHeader]) {
        assert.equal(status, 404);
        assert.equal(json.error.message, "Project not found");
      }
    }
  });

  it("checks size and type, then credentials, then access, then project, then values", async () => {
    const bad = '{"must":7}';
    const big = "x".repeat(1024 * 1024 + 1);
    const foreign = { "X-Project-ID": ids.foreign };
    assert.equal((await call("/both", {}, big)).status, 413);
    assert.equal((await call("/both", { "Content-Type": "text/plain" }, bad)).status, 415);
    assert.equal((await call("/both", {}, bad)).status, 401);
    assert.equal((await call("/both", {}, "{")).status, 401);
    assert.equal((await call("/tenant", byUser(viewer), bad)).status, 403);
    assert.equal((await call("/both", byUser(designer, foreign), bad)).status, 404);
    assert.equal((await call("/both", byKey(key), bad)).status, 400);
  });
});

const pick = async (answer: Promise<{ status: number; reason: string | undefined }>) => {
  const { status, reason } = await answer;
  return [status, reason];
};
