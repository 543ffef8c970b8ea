import assert from "node:assert/strict";
import { sql } from "kysely";
import { SNAPSHOT } from "../../src/domain/kernel/cursor.ts";
import { asOneMessage } from "../../src/domain/kernel/statements.ts";
import type { Domain } from "../support/domain/domain.ts";
import { eventually } from "../support/eventually.ts";
import { startDatabase } from "../support/processes/services.ts";

/** After so long, in ms, the plans of a connection are made anew before its next transaction. */
const PLANS_KEPT_MS = 5_000;

describe("a transaction of PostgreSQL", () => {
  let domain: Domain;
  let remove: () => Promise<void>;
  before(async () => {
    ({ domain, remove } = await startDatabase(1));
  });
  after(() => remove());

  it("sees one snapshot where it asks for that, also when its connection has old plans", async () => {
    const isolation = (): Promise<string> =>
      domain.transact(async ({ db }) => {
        await asOneMessage(db, SNAPSHOT);
        const { rows } = await sql<{ transaction_isolation: string }>`show transaction_isolation`.execute(db);
        return rows[0]!.transaction_isolation;
      });
    assert.equal(await isolation(), "repeatable read");
    const since = performance.now();
    await eventually(() => performance.now() - since > PLANS_KEPT_MS);
    assert.equal(await isolation(), "repeatable read");
    assert.equal(await isolation(), "repeatable read");
  });
});
