import assert from "node:assert/strict";
import { sql } from "kysely";
import { postgresDomain } from "../support/processes/services.ts";

describe("taking a migration back", () => {
  const server = postgresDomain(3);

  it("is refused while another process of Laurel uses the database", async () => {
    const takeBack = (): Promise<string[]> => server.database.migrateDown("none");
    await server.database.em.fork().transactional(async (tx) => {
      await sql`set local application_name = 'laurel web-2/7'`.execute(tx.getKysely());
      await assert.rejects(takeBack(), /use the database \(web-2\/7\).*stop them first/);
    });
    await assert.rejects(takeBack(), /none is not the newest/);
  });
});
