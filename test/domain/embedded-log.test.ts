import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "kysely";
import { openEmbeddedDatabase } from "../../src/platform/database.ts";

const MIB = 1_048_576;
const SEGMENTS = /^[0-9A-F]{24}$/;

describe("the log of an embedded database", () => {
  it("is shortened while the server runs", async () => {
    const dir = await mkdtemp(join(tmpdir(), "laurel-log-"));
    const database = await openEmbeddedDatabase(join(dir, "pglite"));
    const logMib = async (): Promise<number> => {
      const folder = join(dir, "pglite", "pg_wal");
      const names = (await readdir(folder)).filter((name) => SEGMENTS.test(name));
      const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
      return sizes.reduce((sum, size) => sum + size, 0) / MIB;
    };
    try {
      await sql`
        select pg_logical_emit_message(false, 'test', repeat('x', ${MIB})) from generate_series(1, 120)
      `.execute(database.em.fork().getKysely());
      assert.ok((await logMib()) > 120);
      await database.maintain();
      assert.ok((await logMib()) <= 64, `${await logMib()} MiB`);
    } finally {
      await database.close();
      await rm(dir, { recursive: true });
    }
  });
});
