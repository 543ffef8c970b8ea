import assert from "node:assert/strict";
import { sql } from "kysely";
import { changeConfig } from "../../src/domain/kernel/work.ts";
import { newId, partitionOf } from "../../src/domain/kernel/ids.ts";
import { changePlayer } from "../../src/domain/progression/change.ts";
import { processPartitions } from "../../src/domain/progression/claim.ts";
import { insertPlayers } from "../../src/domain/progression/load.ts";
import { createPlanCache, readPlan } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { grantXp } from "../../src/domain/evaluation/xp/xp.ts";
import { addCopies, aWideRule, TOO_WIDE } from "../support/rules/many-rules.ts";
import { processAll, publish, rowsOf, xpOf } from "../support/domain/rule-projects.ts";
import { userIn } from "../support/domain/process-parts.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const PART = 5;

describe("a plan that takes long to compile", () => {
  const onError = (error: unknown): never => assert.fail(String(error));
  const onLeft = (): never => assert.fail("left");

  const { domain } = memoryDomain();

  /** Gives 1 XP for a goal, by each of the rules. */
  const aLargeProject = async (): Promise<string> => {
    const projectId = await domain.addProject();
    await addCopies(domain.transact, projectId, { rule: aWideRule(), count: TOO_WIDE });
    return projectId;
  };
  const processedOf = async (projectId: string): Promise<number> => {
    const rows = await rowsOf(
      domain,
      sql<{ n: number }>`
        select count(*)::int as n from tracked_events where project_id = ${projectId}
          and not exists (select 1 from event_q q where q.project_id = ${projectId} and q.event_id = id)`,
    );
    return rows[0]!.n;
  };

  it("keeps neither its neighbours in the claim nor the locks: it is compiled outside", async () => {
    const large = await aLargeProject();
    const neighbour = await domain.addProject();
    await publish(domain, neighbour, { key: "plain" });
    await domain.track(large, [{ user: userIn(large, PART), type: "goal" }]);
    await domain.track(neighbour, [{ user: userIn(neighbour, PART), type: "goal" }]);
    const plans = createPlanCache();
    const options = { transact: domain.transact, plans, claimLimit: 10, onError, onLeft };
    const places = [{ part: PART, afterProject: FIRST_PROJECT }];
    const first = await processPartitions(options, places);
    assert.deepEqual(await xpOf(domain, neighbour), { [userIn(neighbour, PART)]: 1 });
    assert.deepEqual([first.events, await processedOf(large)], [1, 0]);
    assert.deepEqual(await first.preparing, [PART]);
    assert(plans.get(large) && plans.get(neighbour));
    const second = await processPartitions(options, places);
    assert.deepEqual([second.events, second.preparing], [1, undefined]);
    assert.deepEqual(await xpOf(domain, large), { [userIn(large, PART)]: TOO_WIDE });
  });

  it("is not read in a claim when its definitions are large and were never seen", async () => {
    const [large, neighbour] = [await domain.addProject(), await domain.addProject()];
    await addCopies(domain.transact, large, { rule: aWideRule(), count: 4 });
    await publish(domain, neighbour, { key: "plain" });
    for (const id of [large, neighbour]) await domain.track(id, [{ user: userIn(id, PART), type: "goal" }]);
    const charged: string[] = [];
    const plans = createPlanCache({ onSteps: (id) => void charged.push(id) });
    const gate = Promise.withResolvers<void>();
    void plans.queue.run("another", () => gate.promise);
    const options = { transact: domain.transact, plans, claimLimit: 10, onError, onLeft };
    const places = [{ part: PART, afterProject: FIRST_PROJECT }];
    const first = await processPartitions(options, places);
    assert.deepEqual([first.events, charged], [1, [neighbour]]);
    assert(plans.preparing.has(large));
    gate.resolve();
    assert.deepEqual(await first.preparing, [PART]);
    assert.equal((await processPartitions(options, places)).events, 1);
    assert.deepEqual(charged, [neighbour, large]);
    assert.deepEqual(await xpOf(domain, large), { [userIn(large, PART)]: 4 });
  });

  it("evaluates with the definitions that hold when it is used", async () => {
    const large = await aLargeProject();
    await domain.track(large, [{ user: "u", type: "goal" }]);
    const plans = createPlanCache();
    const part = partitionOf(large, "u");
    const options = { transact: domain.transact, plans, claimLimit: 10, onError, onLeft };
    const first = await processPartitions(options, [{ part, afterProject: FIRST_PROJECT }]);
    await first.preparing;
    await publish(domain, large, { key: "late", actions: [{ type: "grant_xp", amount: 1_000 }] });
    await processAll(domain, { plans });
    assert.deepEqual(await xpOf(domain, large), { u: TOO_WIDE + 1_000 });
  });

  it("is compiled before the transaction of a request runs again, whose changes are made once", async () => {
    const large = await aLargeProject();
    const id = newId();
    await domain.transact((work) => insertPlayers(work, [{ id, projectId: large, externalUserId: "u" }]));
    let runs = 0;
    await domain.transact((work) => {
      runs++;
      return changePlayer(work, { projectId: large, id }, (turn) => {
        grantXp(turn, { amount: 5, cause: { kind: "API" }, key: "once", reason: "a test" });
        return () => undefined;
      });
    });
    assert.equal(runs, 2);
    assert.deepEqual(await xpOf(domain, large), { u: 5 });
    await domain.transact((work) => changePlayer(work, { projectId: large, id }, () => () => void runs++));
    assert.equal(runs, 3, "the plan is kept");
  });

  it("is not kept by a transaction that changes the definitions and is undone", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "one" });
    const plans = createPlanCache();
    const undone = domain.transact(async (work) => {
      await changeConfig(work, projectId);
      assert.equal((await readPlan(work, projectId, plans)).rules.all.length, 1);
      throw new Error("undone");
    });
    await assert.rejects(undone, /undone/);
    await publish(domain, projectId, { key: "two" });
    const plan = await domain.transact((work) => readPlan(work, projectId, plans));
    assert.deepEqual(plan.rules.all.map(({ key }) => key).toSorted(), ["one", "two"]);
  });
});
