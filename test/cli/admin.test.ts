import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { type RawBuilder, sql } from "kysely";
import { openEmbeddedDatabase } from "../../src/platform/database.ts";
import { clientOf } from "../support/http/client.ts";
import { laurelAdmin } from "../support/processes/command.ts";
import { fillDataDir, freePort, kill, startProcess, temporaryDir } from "../support/processes/process.ts";

const EMAIL = "root@platform.example.com";
const PASSWORD = "Root-of-7-trees";

describe("laurel admin", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  beforeEach(async () => {
    dir = await temporaryDir();
  });
  afterEach(() => dir.remove());

  const env = () => ({ DATA_DIR: dir.path, DEMO: "off", LOG_LEVEL: "error" });
  const admin = (args: string[], input?: string) => laurelAdmin(args, env(), input);
  /** What a login with each of the passwords is answered. */
  const login = async (...passwords: string[]): Promise<number[]> => {
    const port = await freePort();
    const server = await startProcess(["serve"], { ...env(), PORT: String(port) });
    try {
      const client = clientOf(`http://127.0.0.1:${port}`);
      const answers: number[] = [];
      for (const password of passwords)
        answers.push((await client.post("/superadmin/auth/login", { email: EMAIL, password })).status);
      return answers;
    } finally {
      await kill(server);
    }
  };

  it("makes a super-admin before the first start, who can then log in", async () => {
    const made = await admin(["create", "--email", EMAIL.toUpperCase(), "--name", "Root"], `${PASSWORD}\n`);
    assert.equal(made.code, 0, made.text);
    assert.ok(!made.text.includes(PASSWORD));
    const listed = await admin(["list"]);
    assert.match(listed.text, new RegExp(`^${EMAIL}  Root  active  never logged in$`, "m"));
    assert.deepEqual(await login(PASSWORD), [200]);
  });

  it("shows a generated password once, and another after a reset, with which alone one logs in", async () => {
    await fillDataDir(dir.path);
    const passwordIn = ({ text }: { text: string }) => /password {2}(\S+)/.exec(text)?.[1] ?? "";
    const first = passwordIn(await admin(["create", "--email", EMAIL, "--generate"]));
    assert.match(first, /^[0-9A-Za-z]{24}$/);
    const second = passwordIn(await admin(["reset-password", EMAIL, "--generate"]));
    assert.notEqual(first, second);
    assert.deepEqual(await login(first, second), [401, 200]);
  });

  it("shuts out whom it disables, also after a new password, until they are enabled", async () => {
    await fillDataDir(dir.path);
    succeed(await admin(["create", "--email", EMAIL], PASSWORD));
    succeed(await admin(["disable", EMAIL]));
    assert.match((await admin(["list"])).text, /disabled \d{4}-/);
    const reset = succeed(await admin(["reset-password", EMAIL], "Another-Root-88"));
    assert.match(reset, /still disabled/);
    assert.deepEqual(await login("Another-Root-88"), [401]);
    succeed(await admin(["enable", EMAIL]));
    assert.deepEqual(await login("Another-Root-88"), [200]);
  });

  it("ends with 1 and says why: weak or no password, address taken, unknown or malformed", async () => {
    await fillDataDir(dir.path);
    const fails = async (args: string[], input: string | undefined, why: RegExp) => {
      const { code, text } = await admin(args, input);
      assert.equal(code, 1, text);
      assert.match(text, why);
      assert.ok(!text.includes("    at "), text);
    };
    await fails(["create", "--email", EMAIL], "weak", /password: must have at least 8 characters/);
    await fails(["create", "--email", EMAIL], "", /standard input.*--generate/);
    await fails(["create", "--email", "no-address"], PASSWORD, /email: /);
    await fails(["create", "--email", EMAIL, "--name", "x"], PASSWORD, /name: /);
    succeed(await admin(["create", "--email", EMAIL], PASSWORD));
    await fails(["create", "--email", EMAIL], PASSWORD, /exists already/);
    for (const step of ["disable", "enable", "reset-password"])
      await fails([step, "nobody@example.com"], PASSWORD, /nobody@example.com not found/);
  });

  it("ends the enforcement of a tenant that has lost its identity provider, which is audited", async () => {
    await fillDataDir(dir.path);
    const [tenantId, ssoId] = [randomUUID(), randomUUID()];
    const inDatabase = async (...statements: RawBuilder<unknown>[]): Promise<unknown[]> => {
      const database = await openEmbeddedDatabase(join(dir.path, "pglite"));
      const db = database.em.fork().getKysely();
      try {
        let rows: unknown[] = [];
        for (const statement of statements) ({ rows } = await statement.execute(db));
        return rows;
      } finally {
        await database.close();
      }
    };
    await inDatabase(
      sql`insert into tenants (id, name, approval_status, plan, created_at, updated_at)
        values (${tenantId}::uuid, 'Acme', 'APPROVED', 'ENTERPRISE', now(), now())`,
      sql`insert into sso_configurations (id, tenant_id, provider, display_name, saml_idp_initiated,
          oidc_scopes, auto_provision, default_role, allowed_domains, enforce_sso, status, idp_changed_at,
          created_at, updated_at)
        values (${ssoId}::uuid, ${tenantId}::uuid, 'SAML', 'Okta', false, '{}', false, 'VIEWER', '{}', true,
          'ACTIVE', now(), now(), now())`,
    );
    assert.match(succeed(await admin(["end-sso-enforcement", tenantId])), /^Acme no longer enforces/);
    const rows = await inDatabase(
      sql`select c.enforce_sso, c.status, l.action, l.actor, l.tenant_id::text as tenant
        from sso_configurations c join audit_log l on l.target_id = c.id::text`,
    );
    const told = { action: "sso.enforcement_ended", actor: "system", tenant: tenantId };
    assert.deepEqual(rows, [{ enforce_sso: false, status: "ACTIVE", ...told }]);
    const again = await admin(["end-sso-enforcement", tenantId]);
    assert.equal(again.code, 1);
    assert.match(again.text, /does not enforce single sign-on/);
    for (const unknown of [randomUUID(), "no-id"])
      assert.match((await admin(["end-sso-enforcement", unknown])).text, /Tenant not found/);
  });

  it("ends with 2 when it is misused", async () => {
    for (const args of [["create"], ["bogus"], ["disable"], ["list", "--bogus"]])
      assert.equal((await admin(args)).code, 2, args.join(" "));
  });

  it("does not touch the embedded database of a running server, and says what to do", async () => {
    await fillDataDir(dir.path);
    const server = await startProcess(["serve"], { ...env(), PORT: String(await freePort()) });
    try {
      for (const args of [["create", "--email", EMAIL], ["list"], ["disable", EMAIL]]) {
        const { code, text } = await admin(args, PASSWORD);
        assert.equal(code, 1);
        assert.match(text, new RegExp(`running on the data directory .*process ${server.child.pid}`));
        assert.match(text, /Stop the server, run this command again, then start the server/);
      }
    } finally {
      await kill(server);
    }
  });
});

const succeed = ({ code, text }: { code: number; text: string }): string => {
  assert.equal(code, 0, text);
  return text;
};
