import assert from "node:assert/strict";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { grantXp } from "../../src/domain/evaluation/xp/xp.ts";
import { newId, partitionOf } from "../../src/domain/kernel/ids.ts";
import { changeConfig } from "../../src/domain/kernel/work.ts";
import { changePlayer } from "../../src/domain/progression/change.ts";
import { type Processed, processPartitions } from "../../src/domain/progression/claim.ts";
import { insertPlayers } from "../../src/domain/progression/load.ts";
import { BROKEN_MS, createPlanCache, type PlanCache, readPlan } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { memoryDomain, processAll, publish, userIn, xpOf } from "../support/domain/domain.ts";
import { addCopies } from "../support/rules/rules-api.ts";
import { aPlan } from "../support/rules/plan.ts";

const PART = 5;
const MB = 1024 * 1024;
const RULE = RuleDocument.parse({
  key: "r",
  name: "One XP",
  triggers: [{ kind: "EVENT", eventTypes: ["goal"] }],
  actions: [{ id: "a1", type: "grant_xp", amount: 1 }],
});

describe("a cache of plans", () => {
  it("keeps a neighbour's when a tenant has more than there is room for", () => {
    const plans = createPlanCache();
    const keep = (tenantId: string, projectId: string, bytes: number) =>
      plans.keep(aPlan({ tenantId, projectId, bytes }));
    keep("small", "s", 10_000);
    for (let event = 0; event < 48; event++) keep("large", `l${event % 16}`, 2.75 * MB);
    assert(plans.get("s"));
  });
});

describe("a plan that is not compiled yet", () => {
  let nowMs = 0;
  let failed: string[];
  let prepared: string[];
  let plans: PlanCache;

  const { domain } = memoryDomain();
  beforeEach(() => {
    failed = [];
    prepared = [];
    const onPreparing = (id: string): void => void prepared.push(id);
    plans = createPlanCache({ maxBytes: 1, onPreparing, nowMs: () => nowMs });
  });

  /** Gives 1 XP for a goal, by each of its rules. */
  const aProject = async (count: number): Promise<string> => {
    const projectId = await domain.addProject();
    await addCopies(domain.transact, projectId, { rule: RULE, count });
    return projectId;
  };
  const track = (id: string): Promise<unknown> =>
    domain.track(id, [{ user: userIn(id, PART), type: "goal" }]);
  const onLeft = (): never => assert.fail("left");
  const onError = (_error: unknown, { projectId }: { projectId: string }): void =>
    void failed.push(projectId);
  const claim = (): Promise<Processed> =>
    processPartitions({ transact: domain.transact, plans, claimLimit: 10, onError, onLeft }, [
      { part: PART, afterProject: FIRST_PROJECT },
    ]);

  it("keeps neither its neighbours in the claim nor the locks: it is compiled outside, once", async () => {
    const [one, other] = [await aProject(5), await aProject(2)];
    await track(other);
    await (
      await claim()
    ).preparing;
    assert.deepEqual(prepared.splice(0), [other]);
    await track(one);
    const first = await claim();
    assert.deepEqual([first.events, prepared.splice(0)], [1, [one]]);
    assert.deepEqual(await first.preparing, [PART]);
    const second = await claim();
    assert.deepEqual([second.events, second.preparing, prepared], [1, undefined, []]);
    assert.deepEqual(await xpOf(domain, one), { [userIn(one, PART)]: 5 });
  });

  it("keeps no event waiting that a claim had no room for beside those of such plans", async () => {
    // Which of the six events there is no room for is up to the ids of the projects.
    for (let round = 0; round < 10; round++) {
      plans = createPlanCache();
      for (const parts of [
        [0, 1, 3],
        [0, 2, 3],
      ]) {
        const id = await aProject(1);
        for (const part of parts) await domain.track(id, [{ user: userIn(id, part), type: "goal" }]);
      }
      const places = [0, 1, 2, 3].map((part) => ({ part, afterProject: FIRST_PROJECT }));
      const options = { transact: domain.transact, plans, claimLimit: 5, onError, onLeft };
      const { events, again, preparing = [] } = await processPartitions(options, places);
      assert.deepEqual([events, again, (await preparing).toSorted()], [0, [], [0, 1, 2, 3]]);
      await processAll(domain);
    }
  });

  it("is used although others do not fit into the cache beside it, and all come to their end", async () => {
    const ids = [await aProject(3), await aProject(3), await aProject(3)];
    for (const id of ids) await track(id);
    for (let events = 0; events < ids.length;) {
      const done = await claim();
      assert.ok(done.events > 0 || done.preparing);
      events += done.events;
      await done.preparing;
    }
    for (const id of ids) assert.deepEqual(await xpOf(domain, id), { [userIn(id, PART)]: 3 });
  });

  it("fails events of its project alone where it cannot be compiled, and is not tried for a while", async () => {
    const [broken, sound] = [await aProject(1), await aProject(1)];
    const metric = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
    const { id } = await domain.addBoard(broken, { key: "goals", name: "Goals", metric, operator: "SUM" });
    await domain.sql`update leaderboards set definition = jsonb_set(definition, '{metric,event}', 'null')
      where id = ${id}`;
    plans = createPlanCache({ onPreparing: (one) => void prepared.push(one), nowMs: () => nowMs });
    for (const one of [broken, sound]) await track(one);
    await claim();
    await Promise.allSettled(plans.preparing.values());
    prepared.splice(0);
    for (const tries of [1, 2]) {
      await claim();
      assert.deepEqual([prepared, failed.splice(0)], [[], [broken]], "without a look at it");
      assert.deepEqual(await xpOf(domain, sound), { [userIn(sound, PART)]: tries });
      for (const one of [broken, sound]) await track(one);
    }
    nowMs += BROKEN_MS;
    await (
      await claim()
    ).preparing;
    assert.deepEqual(prepared, [broken], "and tried again");
    await domain.sql`delete from event_q`;
  });

  it("evaluates with the definitions that hold when it is used", async () => {
    const large = await aProject(5);
    await domain.track(large, [{ user: "u", type: "goal" }]);
    plans = createPlanCache();
    const part = partitionOf(large, "u");
    const options = { transact: domain.transact, plans, claimLimit: 10, onError, onLeft };
    const first = await processPartitions(options, [{ part, afterProject: FIRST_PROJECT }]);
    await first.preparing;
    await publish(domain, large, { key: "late", actions: [{ type: "grant_xp", amount: 1_000 }] });
    await processAll(domain, { plans });
    assert.deepEqual(await xpOf(domain, large), { u: 5 + 1_000 });
  });

  it("is compiled before the transaction of a request runs again, whose changes are made once", async () => {
    const large = await aProject(5);
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
