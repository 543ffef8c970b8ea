import assert from "node:assert/strict";
import { sql } from "kysely";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Transact, TransactAs } from "../../src/domain/kernel/work.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { clientOf, must } from "../support/http/client.ts";
import { startServices } from "../support/processes/services.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import {
  assertAccountsOnly,
  assertHidden,
  assertNoBackDoors,
  assertPartitionsShut,
  assertUnmovable,
  assertWalled,
} from "../support/domain/row-security.ts";
import { madeOnce } from "../support/made.ts";

const USER = "laurel_test_plain";

describe("row-level security on PostgreSQL, for a database user who is no superuser", () => {
  const directory = madeOnce(temporaryDir);
  const services = madeOnce(() => startServices(directory.path, { isEmpty: true }));
  let server: Laurel;
  let database: Database;
  let transact: Transact;
  let transactAs: TransactAs;
  const tenants: Tenant[] = [];

  before(async () => {
    const owner = await openPostgres(services.databaseUrl, 1);
    await owner.em.getConnection().execute(`do $$ begin create role ${USER} login createrole;
      exception when duplicate_object or unique_violation then null; end $$`);
    await owner.em.getConnection().execute(`grant all on schema public to ${USER}`);
    await owner.close();
    const url = new URL(services.databaseUrl);
    url.username = USER;
    const port = await freePort();
    const env = {
      ...services.env,
      DATABASE_URL: url.href,
      PORT: String(port),
      TRUSTED_PROXIES: "127.0.0.1/32",
    };
    server = await startProcess(["serve"], env);
    const client = clientOf(`http://127.0.0.1:${port}`);
    for (let i = 0; i < 2; i++) {
      const tenant = await aTenant(client);
      must(await client.post("/api/v1/players", { externalUserId: "ann" }, { key: tenant.key }), 201);
      tenants.push(tenant);
    }
    database = await openPostgres(url.href, 2);
    const parts = {
      em: database.em,
      clock: () => new Date(),
      wakeUps: NO_WAKE_UPS,
      onError: (error: unknown) => assert.fail(String(error)),
    };
    transact = createTransact(parts);
    transactAs = (scope) => createTransact(parts, scope);
  });
  after(async () => {
    await database?.close();
    if (server) await kill(server);
    await services?.remove();
    await directory?.remove();
  });

  it("is on for every table", () => assertWalled(transact));

  it("hides what belongs to another from statements that forget to filter", async () => {
    const [own, other] = tenants;
    assert.ok((await assertHidden({ transact, transactAs }, own!, other!)) >= 6);
  });

  it("lets look-ups of accounts see no players", () => assertAccountsOnly(transactAs));

  it("lets no row be given to another", async () => {
    assert.ok((await assertUnmovable(transact, transactAs, tenants[0]!)) >= 6);
  });

  it("has no way around it by a partition, those to come included", () =>
    assertPartitionsShut(transact, transactAs));

  it("has no way around it by functions, views, policies or roles", () => assertNoBackDoors(transact));

  it("leaves nothing of a request on the connection that the next one gets", async () => {
    const [own] = tenants;
    for (let i = 0; i < 4; i++) {
      await transactAs({ role: "web", tenantId: own!.tenantId, projectIds: [own!.projectId] })(async () => i);
      const { rows } = await transact(({ db }) =>
        sql<{ role: string; tenant: string | null }>`
          select current_user as role,
            nullif(current_setting('laurel.tenant_id', true), '') as tenant`.execute(db),
      );
      assert.deepEqual(rows, [{ role: USER, tenant: null }]);
    }
  });
});
