import assert from "node:assert/strict";
import { sql } from "kysely";
import { idFor } from "../../src/domain/kernel/ids.ts";
import { ensurePartitions, partitionsOf } from "../../src/domain/registries/retention.ts";
import { openDomain, openMemoryDatabase } from "../support/domain/domain.ts";

const DAY_MS = 86_400_000;

describe("partitions of large tables", () => {
  it("are made from next week on where the default one has rows of this week already", async () => {
    const database = await openMemoryDatabase();
    let aheadMs = 0;
    const domain = openDomain(database, () => new Date(Date.now() + aheadMs));
    const namesOf = async (table: string): Promise<string[]> =>
      (await domain.transact(({ db }) => partitionsOf(db, table))).map(({ name }) => name);
    try {
      await domain.transact(ensurePartitions);
      const projectId = await domain.addProject();
      const before = await namesOf("tracked_events");
      aheadMs = 60 * DAY_MS;
      await domain.transact(async ({ db, now }) => {
        const id = idFor(now.getTime(), "late");
        await sql`
          insert into tracked_events (project_id, id, external_user_id, event_type, properties, occurred_at,
            received_at)
          values (${projectId}, ${id}::uuid, 'ada', 'late', '{}', ${now}, ${now})`.execute(db);
      });
      await domain.transact(ensurePartitions);
      const made = (await namesOf("tracked_events")).filter((name) => !before.includes(name));
      assert.equal(made.length, 4, "those of the weeks that have no rows yet");
      assert.equal((await namesOf("outbox")).length, (await namesOf("rule_executions")).length);
    } finally {
      await database.close();
    }
  });
});
