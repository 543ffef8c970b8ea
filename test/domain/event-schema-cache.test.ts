import assert from "node:assert/strict";
import { sql } from "kysely";
import { createSchemaCache } from "../../src/domain/tracking/event-schemas.ts";
import type { Work } from "../../src/domain/work.ts";
import { type Database, openEmbeddedDatabase } from "../../src/platform/database.ts";
import { type Domain, openDomain } from "../support/leaderboards.ts";

const SCHEMA_CHARACTERS = 4_000;

describe("the schemas of event types that a process keeps", () => {
  let database: Database;
  let domain: Domain;
  before(async () => {
    database = await openEmbeddedDatabase("memory://");
    await database.migrateUp();
    domain = openDomain(database);
  });
  after(() => database.close());

  const aProject = async (): Promise<string> => {
    const projectId = await domain.addProject();
    const schema = JSON.stringify({ type: "object", description: "x".repeat(SCHEMA_CHARACTERS) });
    await domain.transact(({ db }) =>
      sql`insert into event_types (project_id, name, schema, schema_version, enforcement)
        values (${projectId}, 'goal', ${schema}::jsonb, 1, 'REJECT')`.execute(db),
    );
    return projectId;
  };

  it("are bounded by their size: those that were asked for first go, and are read again", async () => {
    const ids = [await aProject(), await aProject(), await aProject()];
    // Room for two of three.
    const cache = createSchemaCache(2.6 * (SCHEMA_CHARACTERS + 1_024));
    const ask = (work: Work, id: string) => cache(work, [{ id, tenant: id, stamp: 1 }]);
    await domain.transact(async (work) => {
      const made = [];
      for (const id of ids) made.push((await ask(work, id)).get(id));
      assert.equal((await ask(work, ids[2]!)).get(ids[2]!), made[2], "kept");
      assert.equal((await ask(work, ids[1]!)).get(ids[1]!), made[1], "kept");
      const again = (await ask(work, ids[0]!)).get(ids[0]!);
      assert.notEqual(again, made[0], "had gone");
      assert.equal(again!.check("goal", {}), undefined);
    });
  });
});
