import assert from "node:assert/strict";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { CLAIM_BYTES_MAX, FIRST_PROJECT, type PartitionCursor } from "../../src/domain/progression/queue.ts";
import { partitionOf } from "../../src/domain/kernel/ids.ts";
import { claimParts, openDomain, openMemoryDatabase, publish, userIn } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

const TEXT = "y".repeat(15_000);
/** Of 300 kB each. */
const EVENTS = 80;
/** Properties of 16 kB that take twenty times as much memory. */
const NOTHINGS = { list: Array.from({ length: 5_000 }, () => ({})) };
const PART = 3;

describe("a claim of events that tell much", () => {
  const database = madeOnce(openMemoryDatabase, (made) => made.close());

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
      const done = await claimParts(options, places);
      taken.push(done.events);
      places = [...done.again];
    }
    assert.equal(
      taken.reduce((sum, events) => sum + events, 0),
      EVENTS,
    );
    assert(Math.max(...taken) < EVENTS, taken.join(", "));
  });

  it("reads no more of them than it has room for, some of each project, and the next goes on", async () => {
    const domain = openDomain(database);
    const waiting = 200;
    const projects = [await domain.addProject(), await domain.addProject()];
    const users = projects.map((id) => userIn(id, PART));
    for (const [i, id] of projects.entries())
      await domain.track(
        id,
        Array.from({ length: waiting }, () => ({ user: users[i]!, properties: NOTHINGS })),
      );
    const plans = createPlanCache();
    const onError = (error: unknown): never => assert.fail(String(error));
    const onLeft = (): never => assert.fail("left");
    const seen: string[][] = [];
    const onSeen = (events: readonly { projectId: string }[]): void =>
      void seen.push(events.map(({ projectId }) => projectId));
    const options = { transact: domain.transact, plans, claimLimit: 500, onError, onLeft, onSeen };
    for (
      let places: readonly PartitionCursor[] = [{ part: PART, afterProject: FIRST_PROJECT }];
      places.length > 0;
    )
      places = (await claimParts(options, places)).again;
    assert.equal(seen.flat().length, 2 * waiting, "all were taken up, without another wake");
    const bytes = JSON.stringify(NOTHINGS).length;
    for (const claim of seen) assert(claim.length * bytes <= CLAIM_BYTES_MAX + 2 * bytes, `${claim.length}`);
    assert.equal(new Set(seen[0]).size, 2, "each project has had its turn in the first claim");
  });
});
