import assert from "node:assert/strict";
import { sql } from "kysely";
import { grantXp } from "../../src/domain/evaluation/xp/xp.ts";
import { newId, partitionOf } from "../../src/domain/kernel/ids.ts";
import { changeConfig } from "../../src/domain/kernel/work.ts";
import { changePlayer } from "../../src/domain/progression/change.ts";
import { type Processed, processPartitions } from "../../src/domain/progression/claim.ts";
import { insertPlayers } from "../../src/domain/progression/load.ts";
import { BROKEN_MS, createPlanCache, type PlanCache, readPlan } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";
import { userIn } from "../support/domain/process-parts.ts";
import { processAll, publish, rowsOf, xpOf } from "../support/domain/rule-projects.ts";
import { addCopies, aWideRule, TOO_WIDE } from "../support/rules/many-rules.ts";

const PART = 5;

describe("plans that do not fit into the cache together", () => {
  let nowMs: number;
  let charged: Map<string, number>;
  let failed: string[];
  let plans: PlanCache;

  const { domain } = memoryDomain();
  beforeEach(() => {
    nowMs = 0;
    failed = [];
    charged = new Map();
    const onSteps = (id: string, steps: number) => void charged.set(id, (charged.get(id) ?? 0) + steps);
    plans = createPlanCache({ maxBytes: 1, onSteps, nowMs: () => nowMs });
  });

  const aProject = async (count: number): Promise<string> => {
    const projectId = await domain.addProject();
    await addCopies(domain.transact, projectId, { rule: aWideRule(), count });
    return projectId;
  };
  const track = (id: string): Promise<unknown> =>
    domain.track(id, [{ user: userIn(id, PART), type: "goal" }]);
  const claim = (): Promise<Processed> =>
    processPartitions(
      {
        transact: domain.transact,
        plans,
        claimLimit: 10,
        onError: (_, { projectId }) => void failed.push(projectId),
        onLeft: () => assert.fail("left"),
      },
      [{ part: PART, afterProject: FIRST_PROJECT }],
    );
  const takeCharged = (id: string): number => {
    const steps = charged.get(id) ?? 0;
    charged.delete(id);
    return steps;
  };

  it("are prepared in turns: one of another tenant's comes before the rest of a tenant's", async () => {
    const many = [await aProject(TOO_WIDE), await aProject(TOO_WIDE), await aProject(TOO_WIDE)];
    await domain.transact(({ db }) =>
      sql`
        update projects set tenant_id = (select tenant_id from projects where id = ${many[0]}::uuid)
        where id = any(${`{${many.join(",")}}`}::uuid[])`.execute(db),
    );
    const other = await aProject(TOO_WIDE);
    const prepared: string[] = [];
    const { pin: hand } = plans;
    plans.pin = (plan) => {
      prepared.push(plan.projectId);
      hand(plan);
    };
    const gate = Promise.withResolvers<void>();
    void plans.queue.run("another", () => gate.promise);
    for (const id of many) await track(id);
    await claim();
    await track(other);
    await claim();
    const running = [...plans.preparing.values()];
    assert.deepEqual([running.length, prepared], [4, []], "one after the other");
    gate.resolve();
    await Promise.all(running);
    assert.equal(prepared.indexOf(other), 1);
    // Whatever was prepared last, there is each for who asked.
    assert.equal((await claim()).events, 4);
  });

  it("that cannot be compiled fail events of their project alone, and rest for a while", async () => {
    const [broken, sound] = [await aProject(TOO_WIDE), await aProject(1)];
    // Boards come after rules: they are not reached in a transaction.
    const metric = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
    const { id } = await domain.addBoard(broken, { key: "goals", name: "Goals", metric, operator: "SUM" });
    await domain.transact(({ db }) =>
      sql`update leaderboards set definition = jsonb_set(definition, '{metric,event}', 'null')
        where id = ${id}`.execute(db),
    );
    await track(broken);
    await track(sound);
    const first = await claim();
    assert.equal(first.events, 1);
    await first.preparing;
    assert.deepEqual(await xpOf(domain, sound), { [userIn(sound, PART)]: 1 });
    for (const tries of [1, 2]) {
      await track(sound);
      if (tries === 2) await track(broken);
      takeCharged(broken);
      const next = await claim();
      assert.deepEqual([next.preparing, takeCharged(broken)], [undefined, 0], "without a look at it");
      assert.deepEqual(failed.splice(0), [broken]);
      assert.deepEqual(await xpOf(domain, sound), { [userIn(sound, PART)]: 1 + tries });
    }
    const [due] = await rowsOf(
      domain,
      sql<{ n: number }>`select count(*)::int as n from event_due where project_id = ${broken}`,
    );
    assert.equal(due!.n, 2);
    nowMs += BROKEN_MS;
    await track(broken);
    const later = await claim();
    await later.preparing;
    assert(takeCharged(broken) > 0, "and tried again");
  });
});

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
