import assert from "node:assert/strict";
import { sql } from "kysely";
import { rowsOf } from "../support/domain/rule-projects.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

/** Columns that change whenever a player goes on by a percent or a point. */
const CHANGED: Readonly<Record<string, readonly string[]>> = {
  player_quests: ["percent", "doc", "updated_at"],
  player_adventures: ["points", "doc", "updated_at"],
};

describe("rows of players' quests and adventures", () => {
  const { domain } = memoryDomain();

  for (const [table, changed] of Object.entries(CHANGED))
    it(`are rewritten in their page, and no index of ${table}, when a player goes on`, async () => {
      // Columns of predicates and expressions keep PostgreSQL from that, too.
      const found = await rowsOf(
        domain,
        sql<{ index: string; column: string }>`
          select distinct c.relname as index, a.attname as column
          from pg_index i join pg_class c on c.oid = i.indexrelid
          join pg_depend d on d.objid = i.indexrelid and d.refobjid = i.indrelid and d.refobjsubid > 0
          join pg_attribute a on a.attrelid = i.indrelid and a.attnum = d.refobjsubid
          where i.indrelid = ${table}::regclass`,
      );
      assert(found.length > 0);
      assert.deepEqual(
        found.filter(({ column }) => changed.includes(column)),
        [],
      );
    });
});
