import assert from "node:assert/strict";
import { sql } from "kysely";
import { listEntries, verifyLedger } from "../../src/domain/economy/ledger/entries.ts";
import { processAll, publish, rowsOf } from "../support/domain/rule-projects.ts";
import { startDatabase } from "../support/processes/services.ts";
import { madeOnce } from "../support/made.ts";
import { migrateAlone } from "../support/domain/migrate-alone.ts";

const NAME = "20261123000005-short-lines";

describe("ledgers whose lines are stored without what their rows say", () => {
  const started = madeOnce(
    () => startDatabase(4),
    (made) => made.remove(),
  );

  const migrate = (direction: "up" | "down") => migrateAlone(started.database, NAME, direction);

  it("are written whole again for the previous version, and then read as before", async () => {
    const { domain } = started;
    const projectId = await domain.addProject();
    const ada = await domain.addPlayer(projectId, "ada");
    await domain.grant(projectId, ada, 5);
    const actions = [
      { type: "grant_xp", amount: 10 },
      { type: "grant_xp", amount: 1, target: { externalUserId: { ref: "event.properties.to" } } },
    ];
    await publish(domain, projectId, { key: "goals", actions });
    await domain.track(
      projectId,
      ["ada", "bob"].map((user) => ({ user, properties: { to: "ada" } })),
    );
    await processAll(domain);
    const stored = () =>
      rowsOf(
        domain,
        sql<{ reason: string; cause: object }>`select reason, cause from ledger_entries
          where project_id = ${projectId} and player_id = ${ada} order by seq desc`,
      );
    const shown = async () => {
      const query = { projectId, id: ada };
      const { entries } = await domain.transact((work) => listEntries(work, query, { limit: 10 }));
      return entries.map(({ reason, cause }) => ({ reason, cause }));
    };
    const before = await shown();
    assert.equal(before.length, 4);
    assert.notDeepEqual(await stored(), before);
    await migrate("down");
    assert.deepEqual(await stored(), before, "whole in their rows, those of no event and of others' too");
    assert.deepEqual(await shown(), before);
    await migrate("up");
    await domain.track(projectId, [{ user: "ada", properties: { to: "bob" } }]);
    await processAll(domain);
    assert.deepEqual((await shown()).slice(-before.length), before);
    assert.equal((await verifyLedger(domain.transact, { projectId, id: ada })).valid, true);
  });
});
