import assert from "node:assert/strict";
import { sql } from "kysely";
import { ensurePartitions } from "../../src/domain/registries/partitions.ts";
import { startDatabase } from "../support/processes/services.ts";
import { madeOnce } from "../support/made.ts";

describe("streams that are divided by week", () => {
  const started = madeOnce(
    () => startDatabase(4),
    (made) => made.remove(),
  );

  it("are read by week alone where a row is looked up by its id", async () => {
    const { domain } = started;
    const plan = await domain.transact(async (work) => {
      await ensurePartitions(work);
      const { rows } = await sql<{ "QUERY PLAN": string }>`
        explain select from outbox where project_id = gen_random_uuid()
          and id = '019aaf00-0000-7000-8000-000000000000'`.execute(work.db);
      return rows.map((row) => row["QUERY PLAN"]).join("\n");
    });
    assert.equal(plan.match(/ on outbox_\w+ outbox\b/g)?.length, 1, plan);
  });
});
