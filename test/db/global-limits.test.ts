import assert from "node:assert/strict";
import { eventually } from "../support/eventually.ts";
import { PARTITIONS } from "../../src/domain/kernel/ids.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import type { Database } from "../../src/platform/database.ts";
import { assertInvariants } from "../support/domain/crashing.ts";
import {
  define,
  type Domain,
  processParts,
  publish,
  type TestEvent,
  xpOf,
} from "../support/domain/domain.ts";
import { startDatabase } from "../support/processes/services.ts";

const RACERS = 20;
const ASKED = 1_400;
const MAX = 1_000;

describe("what all players share, with batches that race", () => {
  let database: Database;
  let domain: Domain;
  let remove: () => Promise<void>;
  before(async () => {
    ({ database, domain, remove } = await startDatabase(RACERS));
  });
  after(() => remove());

  const events = (n: (i: number) => number): TestEvent[] =>
    Array.from({ length: ASKED }, (_, i) => ({ user: `u${i}`, properties: { n: n(i) } }));

  /** Processes everything by RACERS workers at once, each with plans of its own, in small claims. */
  const race = async (): Promise<void> => {
    const failures: unknown[] = [];
    const worker = async (first: number): Promise<void> => {
      const onError = (error: unknown): void => void failures.push(error);
      const options = { transact: domain.transact, plans: createPlanCache(), claimLimit: 10, onError };
      // Few together, so that the racers meet over partitions as over counters.
      const inTurn = Array.from({ length: PARTITIONS }, (_, i) => (first + i) % PARTITIONS);
      await processParts({ ...options, claimTogether: 15 }, inTurn);
    };
    for (let round = 0; round < 2; round++)
      await Promise.all(Array.from({ length: RACERS }, (_, i) => worker(i)));
    // Racers leave each other what they meet over, on a busy machine for some seconds.
    await eventually(async () => {
      await worker(0);
      const [waiting] = await domain.sql<{ n: string }>`select count(*) as n from event_q`;
      return Number(waiting!.n) === 0;
    });
    assert.deepEqual(failures, []);
  };

  const totalXp = async (projectId: string): Promise<number> =>
    Object.values(await xpOf(domain, projectId)).reduce((sum, xp) => sum + xp, 0);

  it(`a limit of ${MAX} over all players lets exactly ${MAX} of ${ASKED} through`, async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, {
      key: "first",
      limits: { global: [{ max: MAX, window: "LIFETIME" }] },
    });
    await domain.track(
      projectId,
      events(() => 1),
    );
    await race();
    assert.equal(await totalXp(projectId), MAX);
    const [executions] = await domain.sql<{ n: string }>`
      select count(*) as n from rule_executions where project_id = ${projectId}`;
    assert.equal(Number(executions!.n), MAX);
  });

  it("a budget is never exceeded, is used till no gift fits, and its end is told once", async () => {
    const projectId = await domain.addProject();
    const max = 5_000;
    await publish(domain, projectId, {
      key: "gifts",
      actions: [{ type: "grant_xp", amount: { $ref: "event.properties.n" } }],
      limits: { budgets: [{ asset: "xp", max, window: "LIFETIME" }] },
    });
    await domain.track(
      projectId,
      events((i) => 1 + (i % 10)),
    );
    await race();
    const given = await totalXp(projectId);
    assert.ok(given <= max && given > max - 10, `${given} of ${max}`);
    const told =
      await domain.sql`select 1 from outbox where project_id = ${projectId} and type = 'rule.budget_exhausted'`;
    assert.equal(told.length, 1);
  });

  it("a limited badge is awarded as often as it says, each with a number of its own", async () => {
    const projectId = await domain.addProject();
    await define(domain, projectId, "badge", { key: "rare", name: "Rare", maxAwards: 100 });
    await publish(domain, projectId, {
      key: "awards",
      actions: [{ type: "update_badge", badgeKey: "rare", operation: "AWARD" }],
    });
    await domain.track(
      projectId,
      events(() => 1),
    );
    await race();
    const held = await domain.sql<{ no: string }>`
      select serial_no as no from player_badges where project_id = ${projectId} and tier > 0`;
    assert.deepEqual(
      held.map(({ no }) => Number(no)).toSorted((a, b) => a - b),
      Array.from({ length: 100 }, (_, i) => i + 1),
    );
  });

  it("a reward's stock ends with its last piece, also through what players send one another", async () => {
    const projectId = await domain.addProject();
    const mug = { key: "mug", name: "Mug", kind: "PRIZE", fulfilment: "EXTERNAL", stock: 50 };
    await define(domain, projectId, "reward", mug);
    await publish(domain, projectId, {
      key: "gives",
      actions: [
        {
          type: "grant_reward",
          rewardKey: "mug",
          target: { externalUserId: { $ref: "event.properties.friend" } },
        },
      ],
    });
    const users = Array.from({ length: 200 }, (_, i) => ({
      user: `u${i}`,
      properties: { friend: `u${(i * 7) % 200}` },
    }));
    await domain.track(projectId, users);
    await race();
    const [given] = await domain.sql<{ n: string }>`
      select sum(quantity) as n from reward_grants where project_id = ${projectId}`;
    assert.equal(Number(given!.n), 50);
  });

  it("leave every invariant whole", async () => {
    await domain.relay();
    await assertInvariants(database.em);
  });
});
