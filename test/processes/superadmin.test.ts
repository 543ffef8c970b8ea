import assert from "node:assert/strict";
import { sql } from "kysely";
import { ACCOUNTS_ROLE, WEB_ROLE } from "../../src/domain/kernel/row-roles.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { laurelAdmin } from "../support/processes/command.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Client, clientOf, must } from "../support/http/client.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";

const EMAIL = "root@platform.example.com";
const PASSWORD = "Root-of-7-trees";
/** What caches may be behind, and a little for the machine, in ms. */
const BEHIND = { timeoutMs: 7_000 };

describe("super-admins over two processes", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let tenant: Tenant;
  let token: string;
  const servers: Laurel[] = [];
  const clients: Client[] = [];

  const command = async (args: string[], input = ""): Promise<string> => {
    const { code, text } = await laurelAdmin(args, services.env, input);
    assert.equal(code, 0, text);
    return text;
  };
  const login = async (client: Client): Promise<string> =>
    must(await client.post("/superadmin/auth/login", { email: EMAIL, password: PASSWORD }), 200).accessToken;

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path, { isEmpty: true });
    const early = await laurelAdmin(["create", "--email", EMAIL], services.env, PASSWORD);
    assert.match(early.text, /run laurel migrate first/);
    for (let i = 0; i < 2; i++) {
      const port = await freePort();
      const shared = {
        PUBLIC_URL: "http://localhost",
        TRUSTED_PROXIES: "127.0.0.1/32",
        SUPERADMIN_MFA_REQUIRED: "off",
      };
      servers.push(await startProcess(["serve"], { ...services.env, ...shared, PORT: String(port) }));
      clients.push(clientOf(`http://127.0.0.1:${port}`));
    }
    database = await openPostgres(services.databaseUrl, 1);
    await command(["create", "--email", EMAIL], PASSWORD);
    tenant = await aTenant(clients[0]!);
    token = await login(clients[0]!);
  });
  after(async () => {
    await database?.close();
    for (const server of servers) await kill(server);
    await services?.remove();
    await directory?.remove();
  });

  it("are made by the command while servers run, and known to all of them", async () => {
    for (const client of clients) must(await client.get("/superadmin/me", { token }), 200);
  });

  it("read every list of the platform under the database's walls, and no player", async () => {
    const paths = ["tenants", `tenants/${tenant.tenantId}`, "users", `users/${tenant.userId}`, "tokens"];
    for (const path of [...paths, "audit-log", "email-logs", "stats", "me"])
      must(await clients[1]!.get(`/superadmin/${path}`, { token }), 200);
  });

  it("suspend a tenant in one process, and the other refuses it within 5 s", async () => {
    const [here, there] = clients as [Client, Client];
    const uses = [
      () => there.get("/players", { key: tenant.key }),
      () => there.get("/projects", { token: tenant.token }),
    ];
    for (const use of uses) must(await use(), 200);
    const act = (step: string) =>
      here.post(
        `/superadmin/tenants/${tenant.tenantId}/${step}`,
        step === "suspend" ? { reason: "Spam" } : {},
        { token },
      );
    must(await act("suspend"), 200);
    await eventuallyHolds(async () => {
      for (const use of uses) assertError(await use(), 403, "TENANT_SUSPENDED");
    }, BEHIND);
    must(await act("unsuspend"), 200);
    await eventuallyHolds(async () => {
      for (const use of uses) must(await use(), 200);
    }, BEHIND);
  });

  it("disable a user in one process, and the other refuses them within 5 s", async () => {
    const [here, there] = clients as [Client, Client];
    const other = await aTenant(here);
    must(await there.get("/projects", { token: other.token }), 200);
    const path = `/superadmin/users/${other.userId}/disable`;
    must(await here.post(path, { reason: "Abuse" }, { token }), 200);
    await eventuallyHolds(
      async () => assertError(await there.get("/projects", { token: other.token }), 401, "SESSION_REVOKED"),
      BEHIND,
    );
  });

  it("revoke a platform token in one process, and the other refuses it within 5 s", async () => {
    const [here, there] = clients as [Client, Client];
    const body = { name: "Site build", scopes: ["blog:sync"] };
    const made = must(await here.post("/superadmin/tokens", body, { token }), 201);
    const post = { slug: "a-post", title: "A post", postDate: "2026-03-01" };
    const sync = () => there.post("/superadmin/blog-posts/sync", { posts: [post] }, { token: made.token });
    assert.equal(must(await sync(), 200).created, 1);
    assert.equal(must(await sync(), 200).updated, 0);
    must(await here.delete(`/superadmin/tokens/${made.id}`, { token }), 200);
    await eventuallyHolds(async () => assertError(await sync(), 401, "TOKEN_INVALID"), BEHIND);
  });

  it("count blog posts once however many calls bring them at once", async () => {
    const posts = Array.from({ length: 50 }, (_, at) => ({
      slug: `race-${at}`,
      title: `Race ${at}`,
      postDate: "2026-03-01",
    }));
    const sync = async (client: Client, some: object[]) =>
      must(await client.post("/superadmin/blog-posts/sync", { posts: some }, { token }), 200);
    const answers = await Promise.all(
      [posts, posts.toReversed(), posts, posts.toReversed()].map((some, at) => sync(clients[at % 2]!, some)),
    );
    assert.equal(
      answers.reduce((sum, { created }) => sum + created, 0),
      50,
    );
    assert.equal(
      answers.reduce((sum, { updated }) => sum + updated, 0),
      0,
    );
  });

  it("cannot change the audit log, under no role of the database", async () => {
    const statements = [
      sql`update audit_log set action = 'nothing'`,
      sql`delete from audit_log`,
      sql`truncate audit_log`,
    ];
    for (const role of [undefined, WEB_ROLE, ACCOUNTS_ROLE]) {
      for (const statement of statements) {
        await assert.rejects(
          database.em.fork().transactional(async (em) => {
            if (role) await sql`select set_config('role', ${role}, true)`.execute(em.getKysely());
            await statement.execute(em.getKysely());
          }),
          /append only|permission denied/,
        );
      }
    }
  });

  it("are shut out by the command within 5 s, in every process", async () => {
    await command(["disable", EMAIL]);
    await eventuallyHolds(async () => {
      for (const client of clients)
        assertError(await client.get("/superadmin/me", { token }), 401, "SESSION_REVOKED");
    }, BEHIND);
    await command(["enable", EMAIL]);
    for (const client of clients)
      must(await client.get("/superadmin/me", { token: await login(client) }), 200);
  });
});
