import assert from "node:assert/strict";
import { changeConfig } from "../../src/domain/config-lock.ts";
import { createLanes } from "../../src/domain/lanes.ts";
import { type Database, openEmbeddedDatabase } from "../../src/platform/database.ts";
import { type Domain, openDomain } from "../support/leaderboards.ts";

const BUSY = { code: "SERVICE_UNAVAILABLE", reason: "BUSY", retryAfterSeconds: 1 };

describe("a lane", () => {
  it("lets in one at a time, in the order of their coming", async () => {
    const lanes = createLanes();
    const entered: number[] = [];
    assert.ok(lanes.tryEnter("a") && !lanes.tryEnter("a") && lanes.tryEnter("b"));
    const all = [1, 2, 3].map(async (n) => {
      await lanes.enter("a", 1);
      entered.push(n);
      lanes.leave("a");
    });
    assert.deepEqual(entered, []);
    lanes.leave("a");
    await Promise.all(all);
    assert.deepEqual(entered, [1, 2, 3]);
    assert.ok(lanes.tryEnter("a"));
  });

  it("sends away who is too much, and who has waited too long, without losing a place", async () => {
    const lanes = createLanes(20);
    lanes.tryEnter("a");
    const late = [lanes.enter("a", 40), lanes.enter("a", 20)];
    await assert.rejects(lanes.enter("a", 1), BUSY);
    for (const one of late) await assert.rejects(one, BUSY);
    lanes.leave("a");
    assert.ok(lanes.tryEnter("a"));
  });
});

describe("a transaction that changes definitions", function () {
  this.timeout(60_000);
  let database: Database;
  let domain: Domain;
  before(async () => {
    database = await openEmbeddedDatabase("memory://");
    await database.migrateUp();
    domain = openDomain(database);
  });
  after(() => database.close());

  it("gives its turn to the next one when it is over, whatever came of it", async () => {
    const projectId = await domain.addProject();
    const change = (n: number) =>
      domain.transact(async (work) => {
        await changeConfig(work, projectId);
        if (n % 2 === 1) throw new Error(`undone ${n}`);
        return n;
      });
    const done = await Promise.allSettled([0, 1, 2, 3, 4].map(change));
    assert.deepEqual(
      done.map((one) => (one.status === "fulfilled" ? one.value : (one.reason as Error).message)),
      [0, "undone 1", 2, "undone 3", 4],
    );
  });
});
