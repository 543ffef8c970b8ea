import assert from "node:assert/strict";
import { sql } from "kysely";
import { migrations } from "../../src/domain/registries/migrations/migrations.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

describe("a schema that is another version's", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  const name = migrations.at(-1)!.name;

  /** Takes away a column, as a migration that is taken back does, with or without saying so. */
  const without = async (isTold: boolean, run: () => Promise<void>): Promise<void> => {
    await api.app.transact(async ({ db }) => {
      await sql`alter table level_curves rename column params to params_of_before`.execute(db);
      if (isTold) await sql`delete from mikro_orm_migrations where name = ${name}`.execute(db);
    });
    try {
      await run();
    } finally {
      await api.app.transact(async ({ db }) => {
        await sql`alter table level_curves rename column params_of_before to params`.execute(db);
        if (isTold) await sql`insert into mikro_orm_migrations (name) values (${name})`.execute(db);
      });
    }
  };

  it("is told as 503 with a time to come back, and a bug as 500", async () => {
    const read = () => api.get("/api/v1/level-curve", { key: tenant.key });
    must(await read(), 200);
    await without(false, async () => assertError(await read(), 500));
    await without(true, async () => {
      const answer = await read();
      assertError(answer, 503, "NOT_READY");
      assert.ok(Number(answer.headers.get("retry-after")) > 0);
    });
    must(await read(), 200);
  });
});
