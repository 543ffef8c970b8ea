import assert from "node:assert/strict";
import { sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { laurel, startProcess, temporaryDir } from "../support/processes/process.ts";

const NEWER = "29990101000001-later";

describe("a database that a newer version has migrated", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  before(async () => {
    dir = await temporaryDir();
    services = await startServices(dir.path, { isEmpty: true });
    database = await openPostgres(services.databaseUrl, 2);
    await database.migrateUp();
    await sql`insert into mikro_orm_migrations (name) values (${NEWER})`.execute(
      database.em.fork().getKysely(),
    );
  });
  after(async () => {
    await database?.close();
    await services.remove();
    await dir.remove();
  });

  it("is served by this version, which says so, and whose `down` leaves it as it is", async () => {
    const server = await startProcess(["worker"], { ...services.env, LOG_LEVEL: "warn" });
    assert.match(server.output(), new RegExp(`"migrations":\\["${NEWER}"\\].*newer version`));
    server.child.kill("SIGTERM");
    assert.equal(await server.ended, 0, server.output());

    const down = laurel(["migrate", "down", "--yes"], services.env);
    assert.equal(await down.ended, 1);
    assert.match(down.output(), new RegExp(`${NEWER} belongs to a newer version`));
    const status = laurel(["migrate", "status"], services.env);
    assert.equal(await status.ended, 0, status.output());
    assert.match(status.output(), new RegExp(`^newer {4}${NEWER}$`, "m"));
    assert.ok((await database.migrationStates()).every(({ isApplied }) => isApplied));
  });
});
