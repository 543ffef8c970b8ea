import assert from "node:assert/strict";
import { createStatsRecorder, type StatsRecorder } from "../../src/domain/evaluation/running/stats.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT, requeueDueEvents } from "../../src/domain/progression/queue.ts";
import { getEvent } from "../../src/domain/tracking/events.ts";
import { claimParts, memoryDomain, publish, userIn, xpOf } from "../support/domain/domain.ts";

const PART = 3;
/** How long an event may take here, in ms. */
const EVENT_MAX_MS = 100;
/** Claims in which everything has come to its end, also where others have the machine for a while. */
const CLAIMS_MAX = 100;

describe("an event whose evaluation takes too long", () => {
  const { database, domain } = memoryDomain();
  let transact: Transact;
  let aheadMs = 0;
  let blamed: string[];

  before(() => {
    transact = createTransact({
      em: database.em,
      clock: () => new Date(Date.now() + aheadMs),
      wakeUps: NO_WAKE_UPS,
      onError: (error) => assert.fail(String(error)),
    });
  });
  beforeEach(() => {
    blamed = [];
  });

  /** Statistics of rules, which evaluation calls for each event of one project. */
  const calling = (projectId: string, considered: () => void): StatsRecorder => {
    const recorder = createStatsRecorder();
    const openBatch: StatsRecorder["openBatch"] = () => {
      const batch = recorder.openBatch();
      const observerOf: typeof batch.observerOf = (id) =>
        id === projectId ? considered : batch.observerOf(id);
      return { ...batch, observerOf };
    };
    return { ...recorder, openBatch };
  };
  const options = (stats: StatsRecorder) => ({
    transact,
    plans: createPlanCache(),
    claimLimit: 100,
    eventMaxMs: EVENT_MAX_MS,
    stats,
    onError: (_error: unknown, { eventId }: { eventId: string }) => void blamed.push(eventId),
    onLeft: () => assert.fail("left"),
  });
  const claim = (stats: StatsRecorder) =>
    claimParts(options(stats), [{ part: PART, afterProject: FIRST_PROJECT }]);

  it("is interrupted and FAILED after its tries, and it alone; it leaves nothing behind", async () => {
    const [endless, plain] = [await domain.addProject(), await domain.addProject()];
    await publish(domain, endless, { key: "endless" });
    await publish(domain, plain, { key: "plain" });
    const [guilty] = (await domain.track(endless, [{ user: userIn(endless, PART) }])) as [string];
    const user = userIn(plain, PART);
    await domain.track(plain, [{ user }, { user }, { user }]);
    const stats = calling(endless, () => {
      for (;;);
    });
    const shown = () => transact((work) => getEvent(work, endless, guilty));
    for (let claims = 0; claims < CLAIMS_MAX && (await shown()).status === "PENDING"; claims++) {
      aheadMs += 60_000;
      await transact(requeueDueEvents);
      await claim(stats);
      // The others have the next one.
      await claim(stats);
    }
    const { status, error } = await shown();
    assert.equal(status, "FAILED");
    assert.match(error!, /^evaluation took more than \d+ ms/);
    assert.deepEqual(blamed, Array(4).fill(guilty));
    assert.deepEqual(await xpOf(domain, plain), { [user]: 3 });
    assert.deepEqual(await xpOf(domain, endless), {}, "not even its player");
  });

  it("is not to blame where the machine stood still", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "plain" });
    const user = userIn(projectId, PART);
    await domain.track(projectId, [{ user }, { user }]);
    const still = new Int32Array(new SharedArrayBuffer(4));
    const done = await claim(calling(projectId, () => void Atomics.wait(still, 0, 0)));
    assert.equal(done.events, 0);
    assert.deepEqual(blamed, []);
    assert.deepEqual(await done.preparing, [PART], "it is tried again soon");
    // The machine may stand still again: a claim that has done nothing is repeated.
    let events = 0;
    for (let claims = 0; claims < CLAIMS_MAX && events === 0; claims++)
      ({ events } = await claim(createStatsRecorder()));
    assert.equal(events, 2);
    assert.deepEqual(await xpOf(domain, projectId), { [user]: 2 });
    assert.deepEqual(await domain.sql`select from event_claims`, []);
  });
});
