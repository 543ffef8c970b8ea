import assert from "node:assert/strict";
import { sql } from "kysely";
import { newId } from "../../src/domain/kernel/ids.ts";
import { type Processed, processPartitions } from "../../src/domain/progression/claim.ts";
import { ClaimShares, EXPENSIVE_MS, EXPENSIVE_STEPS } from "../../src/domain/progression/claim-shares.ts";
import {
  BROKEN_MS,
  createPlanCache,
  loadPlans,
  PLAN_BYTES_MAX,
  PLAN_STEPS_MAX,
  type PlanCache,
  PlansUnprepared,
  readPlanBytes,
} from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { type PublishedRule, publishedPieces } from "../../src/domain/evaluation/running/compile.ts";
import { addCopies, aWideRule, TOO_WIDE } from "../support/rules/many-rules.ts";
import { aPlan } from "../support/rules/plan.ts";
import { rowsOf, xpOf } from "../support/domain/rule-projects.ts";
import { userIn } from "../support/domain/process-parts.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const PART = 5;
const MB = 1024 * 1024;

describe("a cache of plans", () => {
  const planOf = (tenantId: string, projectId: string, bytes: number) =>
    aPlan({ tenantId, projectId, bytes });

  it("keeps a neighbour's when a tenant has more than there is room for", () => {
    const plans = createPlanCache();
    plans.keep(planOf("small", "s", 10_000));
    for (let event = 0; event < 48; event++) plans.keep(planOf("large", `l${event % 16}`, 2.75 * MB));
    assert(plans.get("s"));
  });

  it("has one that was prepared for who asks next, whatever was kept since, and once", () => {
    const plans = createPlanCache({ maxBytes: 10 });
    const prepared = planOf("a", "a", 8);
    plans.pin(prepared);
    for (let i = 0; i < 9; i++) plans.keep(planOf("a", `a${i}`, 8));
    assert.equal(plans.get("a"), prepared);
    plans.keep(planOf("a", "b", 8));
    assert.equal(plans.get("a"), undefined);
  });
});

describe("rules that a process keeps compiled", () => {
  const definition = { ...aWideRule(), conditions: { all: [] }, description: "d".repeat(30_000) };
  const rulesOf = (count: number): PublishedRule[] =>
    Array.from({ length: count }, (_, n) => ({
      id: newId(),
      key: `r${n}`,
      version: 1,
      createdAt: new Date(),
      definition,
    }));
  const stepsOf = (rules: readonly PublishedRule[], tenantId: string): number => {
    let steps = 0;
    for (const piece of publishedPieces(rules, tenantId)) steps += piece;
    return steps;
  };

  it("stay when another tenant has more of them than there is room for", () => {
    const own = rulesOf(5);
    const first = stepsOf(own, "own");
    const kept = stepsOf(own, "own");
    assert(kept < first);
    const greedy = rulesOf(1_200);
    const compiled = stepsOf(greedy, "greedy");
    assert(stepsOf(greedy, "greedy") > compiled / 2, "the definitions are read each time, which counts");
    assert.equal(stepsOf(own, "own"), kept);
  });
});

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

  it("are compiled outside of the claim each time, charged to their project, and then used", async () => {
    const [one, other] = [await aProject(TOO_WIDE), await aProject(TOO_WIDE)];
    for (const id of [one, other, one, other]) {
      await track(id);
      const first = await claim();
      assert.deepEqual([first.events, await first.preparing], [0, [PART]]);
      const steps = takeCharged(id);
      assert(steps > PLAN_STEPS_MAX, `${steps} steps`);
      const second = await claim();
      assert.deepEqual([second.events, second.preparing, charged.size], [1, undefined, 0]);
    }
    assert.deepEqual(await xpOf(domain, one), { [userIn(one, PART)]: 2 * TOO_WIDE });
  });

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

  it("are read in a transaction up to four times the largest size together; the rest is left", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 8; n++) ids.push(await aProject(2));
    const left = await domain.transact(async (work) => {
      try {
        await loadPlans(work, ids, plans);
      } catch (error) {
        if (error instanceof PlansUnprepared) return error.versions.map(({ projectId }) => projectId);
        throw error;
      }
      return assert.fail("all were read");
    });
    const bytes = await domain.transact((work) => readPlanBytes(work, ids));
    const each = bytes.get(ids[0]!)!;
    assert(each < PLAN_BYTES_MAX, `${each} bytes`);
    assert.equal(charged.size, Math.floor((4 * PLAN_BYTES_MAX) / each));
    assert.deepEqual([...charged.keys(), ...left].toSorted(), ids.toSorted());
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

describe("the shares of claims", () => {
  const seen = (shares: ClaimShares, id: string): void => {
    const share = shares.open();
    share.found([{ projectId: id }]);
    share.close(new Map());
  };
  const closedTwice = (shares: ClaimShares): (readonly string[])[] => [
    shares.open().closed,
    shares.open().closed,
  ];

  it("count what is compiled for a project: it is dear by that, too", () => {
    let now = 1_000;
    const shares = new ClaimShares(() => now);
    for (const id of ["plain", "churning"]) seen(shares, id);
    shares.charge("churning", EXPENSIVE_STEPS - 1);
    assert.deepEqual(closedTwice(shares), [[], []]);
    now += EXPENSIVE_MS;
    shares.charge("churning", 1);
    for (const id of ["plain", "churning"]) seen(shares, id);
    assert.deepEqual(closedTwice(shares), [[], []], "it was long ago");
    shares.charge("churning", EXPENSIVE_STEPS);
    assert.deepEqual(closedTwice(shares), [[], ["churning"]]);
    assert.equal(shares.open().batchOf(100, 1), 100);
  });

  it("leave the events of a project whose plan is prepared, and tell when that is over", async () => {
    const shares = new ClaimShares();
    const plans = createPlanCache({ onPreparing: (id, over) => shares.wait(id, over) });
    const preparing = Promise.withResolvers<void>();
    const id = newId();
    plans.noteBegun(id, preparing.promise);
    const share = shares.open();
    assert.deepEqual(share.closed, [id]);
    preparing.reject(new Error("broken"));
    await share.reopened;
    assert.deepEqual(shares.open().closed, []);
  });
});
