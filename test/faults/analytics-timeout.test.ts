import assert from "node:assert/strict";
import { sql } from "kysely";
import { ANALYTICS } from "../../src/domain/kernel/timeouts.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { type Client, clientOf, must } from "../support/http/client.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Services, startServices } from "../support/processes/services.ts";

/** Far longer than any statement may take, in seconds. */
const SLEEP_SECONDS = 600;

describe("a question of analytics that takes too long", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let server: Laurel;
  let database: Database;
  let client: Client;
  let tenant: Tenant;

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    const port = await freePort();
    server = await startProcess(["serve"], { ...services.env, PORT: String(port), ROLES: "web" });
    client = clientOf(`http://127.0.0.1:${port}`);
    tenant = await aTenant(client);
    database = await openPostgres(services.databaseUrl, 1);
    const event = { externalUserId: "ann", eventType: "seen" };
    must(await client.post("/api/v1/events", event, { key: tenant.key }), 200);
    // Each row of events takes its time.
    await database.em.getConnection().execute(`
      alter table tracked_events rename to slow_events;
      create view tracked_events as
        select e.* from slow_events e, lateral (select pg_sleep(${SLEEP_SECONDS}) where e.id is not null) s;
      grant select on tracked_events to public`);
  });
  after(async () => {
    if (server) await kill(server);
    await database?.close();
    await services?.remove();
    await directory?.remove();
  });

  const sleepers = async (): Promise<number> => {
    const { rows } = await sql<{ n: number }>`
      select count(*)::int as n from pg_stat_activity
      where datname = current_database() and state = 'active' and wait_event = 'PgSleep'`.execute(
      database.em.fork().getKysely(),
    );
    return rows[0]!.n;
  };

  it("answers 503 in its time, and leaves nothing running and the others alone", async () => {
    const asked = client.get("/api/v1/analytics/overview", { key: tenant.key });
    await eventually(async () => (await sleepers()) === 1);
    must(await client.get("/api/v1/players", { key: tenant.key }), 200);
    const { status, body, headers } = await asked;
    assert.deepEqual([status, body.error.code], [503, "SERVICE_UNAVAILABLE"]);
    assert.ok(Number(headers.get("retry-after")) > 0);
    assert.ok(ANALYTICS.statementMs < SLEEP_SECONDS * 1_000);
    assert.equal(await sleepers(), 0);
  });
});
