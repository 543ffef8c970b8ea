import assert from "node:assert/strict";
import { processPartitions } from "../../src/domain/progression/claim.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { partitionOf } from "../../src/domain/kernel/ids.ts";
import { type Database, openEmbeddedDatabase } from "../../src/platform/database.ts";
import { openDomain } from "../support/leaderboards.ts";
import { publish } from "../support/rule-projects.ts";

const TEXT = "y".repeat(15_000);
/** Of 300 kB each. */
const EVENTS = 80;

describe("a claim of events that tell much", function () {
  this.timeout(60_000);
  let database: Database;
  before(async () => {
    database = await openEmbeddedDatabase("memory://");
    await database.migrateUp();
  });
  after(() => database.close());

  it("ends before what it writes in one statement is too large, and the next one goes on", async () => {
    const domain = openDomain(database);
    const projectId = await domain.addProject();
    const telling = {
      type: "emit_event",
      eventType: "told",
      channels: ["webhook"],
      properties: { text: { $ref: "event.properties.text" } },
    };
    await publish(domain, projectId, { key: "telling", actions: Array.from({ length: 20 }, () => telling) });
    await domain.track(
      projectId,
      Array.from({ length: EVENTS }, () => ({ user: "u", properties: { text: TEXT } })),
    );
    const onError = (error: unknown): never => assert.fail(String(error));
    const onLeft = (): never => assert.fail("left");
    const options = { transact: domain.transact, plans: createPlanCache(), claimLimit: 100, onError, onLeft };
    const part = partitionOf(projectId, "u");
    const taken: number[] = [];
    for (let places = [{ part, afterProject: FIRST_PROJECT }]; places.length > 0;) {
      const done = await processPartitions(options, places);
      taken.push(done.events);
      places = [...done.again];
    }
    assert.equal(
      taken.reduce((sum, events) => sum + events, 0),
      EVENTS,
    );
    assert(Math.max(...taken) < EVENTS / 2, taken.join(", "));
  });
});
