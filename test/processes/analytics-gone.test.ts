import assert from "node:assert/strict";
import { sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { type Client, clientOf, must } from "../support/http/client.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Services, startServices } from "../support/processes/services.ts";

/** How long a slow event or player takes to be read, in s: more than this test waits for anything. */
const SLOW_S = 25;
/** More than a pool has connections. */
const TIMES = 12;

describe("questions of analytics, and lists of players, whose client has gone", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let server: Laurel;
  let client: Client;
  let url: string;
  let tenant: Tenant;

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    database = await openPostgres(services.databaseUrl, 1);
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    server = await startProcess(["serve"], { ...services.env, PORT: String(port), DATABASE_POOL_MAX: "8" });
    client = clientOf(url);
    tenant = await aTenant(client);
    const event = { externalUserId: "ann", eventType: "seen" };
    must(await client.post("/api/v1/events?wait=true", event, { key: tenant.key }), 200);
  });
  after(async () => {
    if (server) await kill(server);
    await database?.close();
    await services?.remove();
    await directory?.remove();
  });

  const run = (...statements: readonly string[]) =>
    Promise.all(statements.map((text) => sql.raw(text).execute(database.em.fork().getKysely())));

  /** Makes each event or player that somebody reads through the API take long. */
  const slowDown = async (): Promise<void> => {
    await run(`create or replace function take_long() returns boolean language plpgsql as
      $$ begin perform pg_sleep(${SLOW_S}); return true; end $$`);
    for (const table of ["tracked_events", "players"])
      await run(`create policy slow on ${table} as restrictive for select using (take_long())`);
  };
  const speedUp = () =>
    run(...["tracked_events", "players"].map((table) => `drop policy if exists slow on ${table}`));

  const running = async (): Promise<number> => {
    const { rows } = await sql<{ n: number }>`
      select count(*)::int as n from pg_stat_activity where datname = current_database()
        and wait_event = 'PgSleep'`.execute(database.em.fork().getKysely());
    return rows[0]!.n;
  };

  /** Asks, and leaves when the database is at it. */
  const askAndLeave = async (path: string): Promise<void> => {
    const leaving = new AbortController();
    const asked = fetch(`${url}/api/v1/${path}`, {
      headers: { "X-API-Key": tenant.key },
      signal: leaving.signal,
    });
    const gone = assert.rejects(asked);
    await eventually(async () => (await running()) > 0, { label: `${path} is read` });
    leaving.abort();
    await gone;
    // Before the time limit of requests ends the statement.
    const soon = { timeoutMs: 3_000, label: `${path} is not read any more` };
    await eventually(async () => (await running()) === 0, soon);
  };

  for (const path of [
    "analytics/overview",
    "analytics/retention",
    "analytics/funnels?steps=seen,won",
    "analytics/export?report=events&format=csv",
    "players?attribute=city&value=Rome",
  ])
    it(`leave nothing running in the database: ${path}`, async () => {
      await slowDown();
      try {
        await askAndLeave(path);
      } finally {
        await speedUp();
      }
      must(await client.get("/api/v1/analytics/overview", { key: tenant.key }), 200);
    });

  it("cost others no connection, however many have gone", async () => {
    await slowDown();
    try {
      for (let n = 0; n < TIMES; n++) await askAndLeave(`analytics/trends?metric=events&limit=${n + 1}`);
    } finally {
      await speedUp();
    }
    const answers = await Promise.all(
      Array.from({ length: TIMES }, () => client.get("/api/v1/players", { key: tenant.key })),
    );
    for (const answer of answers) must(answer, 200);
    const { metrics } = must(await client.get("/api/v1/analytics/overview", { key: tenant.key }), 200);
    assert.equal(metrics.events.value, 1);
  });
});
