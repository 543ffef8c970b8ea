import assert from "node:assert/strict";
import { sql } from "kysely";
import { checkPostgres } from "../../src/cli/doctor-checks.ts";
import { CONCERNS_ERASED } from "../../src/domain/delivery/webhooks/plan.ts";
import { openPostgres } from "../../src/platform/database.ts";
import { openDomain } from "../support/domain/domain.ts";
import { startServices } from "../support/processes/services.ts";
import { madeOnce } from "../support/made.ts";

describe("a database that has grown since its last statistics", () => {
  let database: Awaited<ReturnType<typeof openPostgres>>;
  const services = madeOnce(() => startServices(""));
  before(async () => {
    database = await openPostgres(services.databaseUrl, 2);
    await database.migrateUp();
  });
  after(async () => {
    await database.close();
    await services.remove();
  });

  it("is asked for the players of an event by their keys, however many a project has", async () => {
    const domain = openDomain(database);
    await sql`vacuum analyze`.execute(database.em.fork().getKysely());
    const projectId = await domain.addProject();
    const plan = await domain.transact(async ({ db }) => {
      await sql`
        insert into players (project_id, id, external_user_id, created_at, updated_at)
        select ${projectId}::uuid, gen_random_uuid(), 'u' || n, now(), now()
        from generate_series(1, 3000) as n`.execute(db);

      const { rows } = await sql<{ "QUERY PLAN": string }>`
        explain select ${CONCERNS_ERASED} from json_to_recordset('[]'::json)
          as e(project_id uuid, type text, players uuid[], created_at timestamptz)`.execute(db);
      return rows.map((row) => row["QUERY PLAN"]).join("\n");
    });
    assert.match(plan, /Index Cond: \(\(project_id = e\.project_id\) AND \(id = n\.id\)\)/, plan);
  });

  it("is described by the doctor, with its largest tables", async () => {
    const tables = (await checkPostgres(services.databaseUrl)).find(({ name }) => name === "Tables");
    assert.match(tables?.message ?? "", /^[\d,.]+ MiB in all, (\w+ [\d,.]+ MiB(, )?){5}$/);
    assert.match(tables!.message, /players/);
  });
});
