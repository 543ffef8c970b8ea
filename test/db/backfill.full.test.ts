import assert from "node:assert/strict";
import { backfill } from "../../src/domain/rules/insight/recount-players.ts";
import { countersIn, countersOfEvents, runJob } from "../support/domain/crashing.ts";
import { startDatabase } from "../support/processes/services.ts";
import { type Domain, publish, type TestEvent } from "../support/domain/domain.ts";

const USERS = 130;
const METRICS = [
  { eventTypes: ["goal"], aggregate: "count" },
  { eventTypes: ["goal", "other"], aggregate: "sum", property: "n" },
];

describe("a backfill on PostgreSQL", () => {
  let domain: Domain;
  let remove: () => Promise<void>;
  before(async () => {
    ({ domain, remove } = await startDatabase(6));
  });
  after(() => remove());

  const events = (from: number, n: number): TestEvent[] =>
    Array.from({ length: n }, (_, i) => ({
      user: `u${(from + i) % USERS}`,
      type: (from + i) % 5 === 0 ? "other" : "goal",
      properties: { n: (from + i) % 11 },
    }));

  it("is exact while workers process events of the same players at the same time", async () => {
    const projectId = await domain.addProject();
    await domain.track(projectId, events(0, 1_500));
    await domain.process();
    await domain.track(projectId, events(1_500, 300));
    const ruleId = await publish(domain, projectId, {
      key: "counting",
      conditions: {
        all: METRICS.map((metric) => ({ type: "event_aggregate", metric, op: "gte", value: 1_000_000 })),
      },
    });
    let isOver = false;
    let sent = 1_800;
    const send = async (): Promise<void> => {
      while (!isOver) {
        await domain.track(projectId, events(sent, 37));
        sent += 37;
      }
    };
    const work = async (): Promise<void> => {
      while (!isOver) await domain.process();
    };
    const others = Promise.all([send(), work(), work()]);
    for (let round = 0; round < 3; round++)
      await runJob(domain, projectId, { kind: backfill, params: { ruleId } });
    isOver = true;
    await others;
    await domain.process();
    assert.ok(sent > 2_500, `only ${sent} events came meanwhile`);
    for (const metric of METRICS) {
      const expected = await countersOfEvents(domain, projectId, metric);
      assert.deepEqual(await countersIn(domain, projectId, metric), expected);
    }
  });
});
