import assert from "node:assert/strict";
import { sql } from "kysely";
import { backfill } from "../../src/domain/rules/insight/recount-players.ts";
import { countersIn, runJob } from "../support/domain/crashing.ts";
import { memoryDomain, publish } from "../support/domain/domain.ts";

const EVENTS = 12_000;
const METRIC = { eventTypes: ["goal"], aggregate: "count" };
/** The id of the nth event, before those of all events that are sent. */
const idOf = (n: ReturnType<typeof sql>) =>
  sql`('00000000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`;

describe("a backfill of a player with a long past", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  let ruleId: string;
  beforeEach(async () => {
    projectId = await domain.addProject();
    await domain.addPlayer(projectId, "ada");
    await domain.addPlayer(projectId, "bob");
    await query(sql`
      insert into tracked_events (project_id, id, external_user_id, event_type, properties, occurred_at,
        received_at)
      select ${projectId}::uuid, ${idOf(sql`i`)}, 'ada', 'goal', '{}', now(), now()
      from generate_series(1, ${EVENTS}::int) as i`);
    await domain.track(projectId, [{ user: "ada" }, { user: "bob" }]);
    const conditions = { all: [{ type: "event_aggregate", metric: METRIC, op: "gte", value: 1_000_000 }] };
    ruleId = await publish(domain, projectId, { key: "counting", conditions });
  });

  const query = (statement: ReturnType<typeof sql>): Promise<unknown> =>
    domain.transact(({ db }) => statement.execute(db));
  const run = (between?: (step: number) => Promise<unknown>) => {
    let step = 0;
    return runJob(domain, projectId, {
      kind: backfill,
      params: { ruleId },
      between: async () => between?.(++step),
    });
  };
  const reject = (n: number): Promise<unknown> =>
    query(sql`
      insert into event_results (project_id, event_id, status, error, attempts, processed_at)
      values (${projectId}, ${idOf(sql`${n}::int`)}, 'REJECTED', 'test', 1, now())`);

  it("is done in steps, each a transaction of its own, and counts what is processed meanwhile", async () => {
    const { result, steps } = await run((step) => (step === 1 ? domain.process() : Promise.resolve()));
    assert(steps >= 3, `${steps} steps`);
    assert.deepEqual(await countersIn(domain, projectId, METRIC), { ada: EVENTS + 1, bob: 1 });
    assert.deepEqual([result["players"], result["events"]], [2, EVENTS + 2]);
  });

  it("begins anew where what was counted is no longer what there is", async () => {
    await domain.process();
    const { result } = await run((step) => (step === 1 ? reject(7) : Promise.resolve()));
    assert.deepEqual(await countersIn(domain, projectId, METRIC), { ada: EVENTS, bob: 1 });
    assert(Number(result["events"]) > 2 * EVENTS - 10, String(result["events"]));
    assert.equal(result["unsettled"], undefined);
  });

  it("leaves a player alone, and says so, whose past does not come to rest", async () => {
    await domain.process();
    const { result } = await run((step) => reject(step));
    assert.deepEqual(await countersIn(domain, projectId, METRIC), { ada: 1, bob: 1 });
    assert.equal(result["unsettled"], 1);
  });
});
