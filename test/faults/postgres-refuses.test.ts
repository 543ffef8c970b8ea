import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { eventually } from "../support/eventually.ts";
import { type PostgresCluster, startPostgresCluster } from "../support/processes/postgres-cluster.ts";

/** Longer than the first waits of an event whose own fault it would be, in ms. */
const OUTAGE_MS = 2_500;
const BACK_MAX_MS = 5_000;

describe("a PostgreSQL that answers, and refuses", () => {
  let cluster: PostgresCluster;
  before(async () => {
    cluster = await startPostgresCluster();
  });
  after(() => cluster?.stop());

  /** From now on, and not until then, writes to the table fail inside PostgreSQL with this state. */
  const refuse = async (table: string, state: string): Promise<void> => {
    await sql`create or replace function refuse() returns trigger language plpgsql as ${sql.raw(
      `$$ begin raise exception 'refused' using errcode = '${state}'; end $$`,
    )}`.execute(cluster.db);
    await sql`create trigger refused before insert on ${sql.table(table)}
      for each statement execute function refuse()`.execute(cluster.db);
  };
  const allow = (table: string) =>
    sql`drop trigger refused on ${sql.table(table)}`.execute(cluster.db).then(() => undefined);

  const tries = async (): Promise<number> => {
    const { rows } = await sql<{ n: number }>`
      select (select count(*) from event_due) + (select count(*) from event_q where attempts > 0)
        + (select count(*) from event_results) as n`.execute(cluster.db);
    return rows[0]!.n;
  };

  for (const [what, state] of [
    ["a full disk", "53100"],
    ["a read-only server", "25006"],
    ["a cancelled statement", "57014"],
  ] as const) {
    it(`with ${what} fails no event, and uses up none of its tries`, async () => {
      const { send, assertExact, isBackWithin, workers } = cluster;
      await refuse("ledger_entries", state);
      const quiet = workers.map(({ output }) => output().length);
      try {
        for (let n = 0; n < 40; n++) assert.equal((await send(n % 2)).status, 200);
        await delay(OUTAGE_MS);
        assert.equal(await tries(), 0);
      } finally {
        await allow("ledger_entries");
      }
      for (const [n, { output }] of workers.entries())
        assert.ok(output().length - quiet[n]! < 5_000, "the log is flooded");
      await isBackWithin(BACK_MAX_MS);
      await assertExact();
    });

    it(`with ${what} answers requests 503 with Retry-After`, async () => {
      await refuse("tracked_events", state);
      try {
        const { status, retryAfter, body } = await cluster.send(0);
        assert.equal(status, 503, JSON.stringify(body));
        assert.ok(Number(retryAfter) >= 1);
        const { error } = body as { error: { code: string; reason: string } };
        assert.deepEqual([error.code, error.reason], ["SERVICE_UNAVAILABLE", "DATABASE_UNAVAILABLE"]);
      } finally {
        await allow("tracked_events");
      }
    });
  }

  it("whose sessions are ended again and again loses and doubles nothing", async () => {
    const { db, load, isBackWithin, assertExact, answers } = cluster;
    const before = answers.length;
    const end = load();
    for (let n = 0; n < 5; n++) {
      await delay(400);
      await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`.execute(db);
    }
    await isBackWithin(BACK_MAX_MS);
    await end();
    for (const { status, body } of answers.slice(before))
      assert.ok(status === 200 || status === 503, `${status}: ${JSON.stringify(body)}`);
    await assertExact();
  });

  it("blocks requests for no longer than 2 s by a worker that has stopped, even with wait", async () => {
    const { workers, send, load, isBackWithin, assertExact, answers } = cluster;
    const before = answers.length;
    const end = load();
    try {
      await eventually(() => answers.length > before + 20);
      workers[0]!.child.kill("SIGSTOP");
      for (let n = 0; n < 6; n++) {
        const { ms, status } = await send(n % 2, "?wait=true");
        assert.ok(status === 200 || status === 503);
        assert.ok(ms < 3_500, `a request that waits for its events took ${Math.round(ms)} ms`);
      }
      await isBackWithin(BACK_MAX_MS);
    } finally {
      workers[0]!.child.kill("SIGCONT");
      await end();
    }
    const slowest = Math.max(...answers.slice(before).map(({ ms }) => ms));
    assert.ok(slowest < 3_500, `a request took ${Math.round(slowest)} ms`);
    await assertExact();
  });
});
