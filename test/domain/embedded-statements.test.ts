import assert from "node:assert/strict";
import { sql } from "kysely";
import { SNAPSHOT } from "../../src/domain/kernel/cursor.ts";
import { asOneMessage } from "../../src/domain/kernel/statements.ts";
import { type Database, openEmbeddedDatabase } from "../../src/platform/database.ts";
import { migratedCluster } from "../support/domain/migrated-cluster.ts";
import { pluck } from "../support/pluck.ts";

describe("statements of an embedded database", () => {
  let database: Database;
  before(async () => {
    database = await openEmbeddedDatabase("memory://", await migratedCluster());
  });
  after(() => database.close());

  type Run = (db: ReturnType<typeof dbOf>) => Promise<unknown>;
  const transact = <T>(run: (db: ReturnType<typeof dbOf>) => Promise<T>): Promise<T> =>
    database.em.fork().transactional((tx) => run(tx.getKysely()));
  const dbOf = () => database.em.fork().getKysely();
  const prepared = async (like: string): Promise<number> => {
    const found = await sql<{ count: number }>`
      select count(*)::int as count from pg_prepared_statements
      where statement like ${like} and statement not like '%pg_prepared_statements%'`.execute(dbOf());
    return found.rows[0]!.count;
  };

  it("give values of every type as they were sent, the first time and prepared", async () => {
    const at = new Date("2026-02-03T04:05:06.789Z");
    const ask: Run = (db) =>
      sql`select ${7}::int as i, ${"9007199254740991"}::bigint as b, ${true}::bool as t, ${null}::text as n,
        ${at}::timestamptz as at, ${JSON.stringify({ a: [1, null] })}::jsonb as j,
        ${'{a,"b c"}'}::text[] as l, ${"é'\\"}::text as s, ${1.5}::float8 as f`.execute(db);
    const rows = [];
    for (let times = 0; times < 4; times++) rows.push(((await transact(ask)) as { rows: unknown[] }).rows[0]);
    for (const row of rows) assert.deepEqual(row, rows[0]);
    const { i, b, t, n, j, l, s, f } = rows[0] as Record<string, unknown>;
    assert.deepEqual([i, b, t, n, s, f], [7, 9_007_199_254_740_991, true, null, "é'\\", 1.5]);
    assert.deepEqual([typeof j === "string" ? JSON.parse(j) : j, l], [{ a: [1, null] }, ["a", "b c"]]);
    assert.equal(await prepared("%as f"), 1);
  });

  it("give the columns that a table has now, whatever was prepared before", async () => {
    await sql`create table changing (a int)`.execute(dbOf());
    const columns = async () => {
      const { rows } = await sql<Record<string, unknown>>`select * from changing`.execute(dbOf());
      return rows.map((row) => Object.keys(row));
    };
    await sql`insert into changing values (1)`.execute(dbOf());
    for (let times = 0; times < 3; times++) assert.deepEqual(await columns(), [["a"]]);
    await sql`alter table changing add column b int`.execute(dbOf());
    assert.deepEqual(await columns(), [["a", "b"]]);
    await sql`drop table changing`.execute(dbOf());
    await assert.rejects(columns(), /changing/);
  });

  it("of one transaction that are sent at once get each its own answer", async () => {
    const answers = await transact((db) =>
      Promise.all([1, 2, 3, 2, 1].map((n) => sql<{ n: number }>`select ${n}::int as n`.execute(db))),
    );
    assert.deepEqual(
      pluck(answers, "rows"),
      [1, 2, 3, 2, 1].map((n) => [{ n }]),
    );
  });

  it("that fail undo the transaction, and leave the next one in order", async () => {
    await sql`create table kept_rows (id int primary key)`.execute(dbOf());
    const add = (db: ReturnType<typeof dbOf>, id: number) =>
      sql`insert into kept_rows values (${id}::int)`.execute(db);
    const ids = async () =>
      (await sql<{ id: number }>`select id from kept_rows order by 1`.execute(dbOf())).rows;
    for (let times = 0; times < 3; times++) {
      await assert.rejects(
        transact(async (db) => {
          await add(db, 2);
          await add(db, 2);
        }),
        { code: "23505" },
      );
      assert.deepEqual(await ids(), []);
    }
    const swallowed = transact(async (db) => {
      await add(db, 3);
      await add(db, 3).catch(() => undefined);
    });
    await assert.rejects(swallowed, /failed transaction/i);
    await transact((db) => add(db, 4));
    assert.deepEqual(await ids(), [{ id: 4 }]);
    await sql`drop table kept_rows`.execute(dbOf());
  });

  it("that are marked as one message go first, and fail with the next one, or with the commit", async () => {
    const isolation = await transact(async (db) => {
      await asOneMessage(db, sql`set transaction isolation level repeatable read`);
      return (await sql<{ of: string }>`select current_setting('transaction_isolation') as of`.execute(db))
        .rows;
    });
    assert.deepEqual(isolation, [{ of: "repeatable read" }]);
    const writing = transact(async (db) => {
      await asOneMessage(db, SNAPSHOT);
      await sql`insert into mikro_orm_migrations (name) values ('written')`.execute(db);
    });
    await assert.rejects(writing, { code: "25006" });
    const wrong = (db: ReturnType<typeof dbOf>) =>
      asOneMessage(db, sql`set local statement_timeout = 'soon'`);
    await assert.rejects(
      transact(async (db) => {
        await wrong(db);
        await sql`select 1`.execute(db);
      }),
      /statement_timeout/,
    );
    await assert.rejects(transact(wrong), /statement_timeout/);
    assert.deepEqual((await sql`select 1 as one`.execute(dbOf())).rows, [{ one: 1 }]);
  });
});
