import assert from "node:assert/strict";
import { sql } from "kysely";
import { openMemoryDatabase } from "../support/domain/memory-database.ts";

const ROWS = 5_000;

describe("maintenance of an engine within the process", () => {
  it("takes the tables that have changed, and lets other statements in between", async () => {
    const database = await openMemoryDatabase();
    after(() => database.close());
    const db = database.em.fork().getKysely();
    const rowsOf = async (name: string): Promise<number> => {
      const { rows } = await sql<{ rows: number }>`
        select reltuples as rows from pg_class where oid = ${name}::regclass`.execute(db);
      return rows[0]!.rows;
    };
    const tables = ["one", "two", "three", "Four"];
    for (const name of tables) {
      await sql`create table ${sql.table(name)} as select generate_series(1, ${ROWS}) as a`.execute(db);
    }
    const order: string[] = [];
    const changed = database.vacuum().finally(() => order.push("all tables"));
    await sql`select 1`.execute(db);
    await sql`select 1`.execute(db);
    order.push("others");
    const done = await changed;
    for (const name of tables) assert.ok(done.includes(name === "Four" ? 'public."Four"' : `public.${name}`));
    assert.deepEqual(order, ["others", "all tables"]);
    assert.equal(await rowsOf("two"), ROWS);

    assert.deepEqual(
      (await database.vacuum()).filter((name) => name.startsWith("public.")),
      [],
    );
    await sql`insert into two select generate_series(1, ${ROWS}) as a`.execute(db);
    assert.deepEqual(
      (await database.vacuum()).filter((name) => name.startsWith("public.")),
      ["public.two"],
    );
    assert.equal(await rowsOf("two"), 2 * ROWS);
  });
});
