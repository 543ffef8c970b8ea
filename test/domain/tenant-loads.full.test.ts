import assert from "node:assert/strict";
import { sql } from "kysely";
import { type Processed, processPartitions } from "../../src/domain/progression/claim.ts";
import { BUSY_STEPS, ClaimShares, TenantLoads } from "../../src/domain/progression/claim-shares.ts";
import { createPlanCache, loadPlans } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT, type PartitionCursor } from "../../src/domain/progression/queue.ts";
import { publish, rowsOf } from "../support/domain/rule-projects.ts";
import { userIn } from "../support/domain/process-parts.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

describe("the loads of tenants", () => {
  let now: number;
  let loads: TenantLoads;
  beforeEach(() => {
    now = 1_000;
    loads = new TenantLoads(() => now);
  });

  /** Who has had more than an equal share. */
  const offNow = (): readonly string[] => loads.order().putOff[1] ?? [];

  it("put off nobody while there is little to do", () => {
    loads.charge({ projectId: "a1", tenantId: "a" }, BUSY_STEPS - 1);
    assert.deepEqual(offNow(), []);
  });

  it("put off all projects of a tenant who takes much, those that took most first", () => {
    for (let i = 0; i < 20; i++) loads.charge({ projectId: `a${i}`, tenantId: "a" }, BUSY_STEPS / 10 + i);
    loads.charge({ projectId: "b1", tenantId: "b" }, 1_000);
    assert.deepEqual(offNow().slice(0, 2), ["a19", "a18"]);
    assert.equal(offNow().length, 20);
    assert.ok(!offNow().includes("b1"));
  });

  it("put off a tenant who is alone too, for whoever comes", () => {
    loads.charge({ projectId: "a1", tenantId: "a" }, BUSY_STEPS);
    assert.deepEqual(offNow(), ["a1"]);
  });

  it("put off each of several who take as much, and not one who takes less than they", () => {
    for (const tenant of ["a", "b", "c"])
      loads.charge({ projectId: `${tenant}1`, tenantId: tenant }, BUSY_STEPS);
    loads.charge({ projectId: "d1", tenantId: "d" }, BUSY_STEPS / 2);
    assert.deepEqual(offNow(), ["a1", "b1", "c1"]);
    assert.deepEqual(loads.order().putOff[0], ["a1", "b1", "c1", "d1"], "before it comes who took nothing");
  });

  it("forget what was taken long ago", () => {
    loads.charge({ projectId: "a1", tenantId: "a" }, 4 * BUSY_STEPS);
    now += 9_000;
    assert.deepEqual(offNow(), ["a1"]);
    now += 2_000;
    assert.deepEqual(offNow(), []);
  });

  it("are of a bounded number of projects", () => {
    for (let i = 0; i < 5_000; i++)
      loads.charge({ projectId: `a${i}`, tenantId: "a" }, BUSY_STEPS + (i < 3_000 ? 1 : 0));
    assert.equal(offNow().length, 100);
    assert.ok(!offNow().includes("a2999"));
  });
});

describe("claims where tenants take much by many projects", () => {
  /** Projects of which each takes less of a claim than would make it dear. */
  const PROJECTS = 10;
  const ROUNDS = 6;
  /** Claims in which the tenant takes enough to be put off. */
  const FIRST_CLAIMS = 3;
  const { domain } = memoryDomain();

  const track = (projectId: string, count: number): Promise<string[]> =>
    domain.track(
      projectId,
      Array.from({ length: count }, () => ({ user: userIn(projectId, 0) })),
    );
  const waiting = async (projectId: string): Promise<number> => {
    const [row] = await rowsOf(
      domain,
      sql<{ n: string }>`select count(*) as n from event_q where project_id = ${projectId}`,
    );
    return Number(row!.n);
  };

  const tenantOf = async (projectId: string): Promise<string> => {
    const [row] = await rowsOf(
      domain,
      sql<{ id: string }>`
      select tenant_id as id from projects where id = ${projectId}`,
    );
    return row!.id;
  };

  const toOneTenant = (projectIds: readonly string[]): Promise<unknown> =>
    domain.transact(({ db }) =>
      sql`
        update projects set tenant_id = (select tenant_id from projects where id = ${projectIds[0]!})
        where id = any(${`{${projectIds.join(",")}}`}::uuid[])`.execute(db),
    );

  const waitingIn = async (projectIds: readonly string[]): Promise<number> => {
    let sum = 0;
    for (const projectId of projectIds) sum += await waiting(projectId);
    return sum;
  };

  it("take a neighbour's events first, also when only one project of the tenant is known yet", async () => {
    const many: string[] = [];
    for (let i = 0; i < PROJECTS; i++) many.push(await domain.addProject());
    await toOneTenant(many);
    const plain = await domain.addProject();
    for (const projectId of many) await track(projectId, 20);
    await track(plain, 1);
    let nowMs = 0;
    const shares = new ClaimShares(() => (nowMs += 25));
    const taken = { tenantId: await tenantOf(many[0]!), steps: 4 * BUSY_STEPS, events: 1, slowestMs: 1 };
    shares.open().close(new Map([[many[0]!, taken]]));
    const onError = (error: unknown): never => assert.fail(String(error));
    const options = { transact: domain.transact, plans: createPlanCache(), claimLimit: 100, shares };
    const place = { part: 0, afterProject: FIRST_PROJECT };
    await processPartitions({ ...options, onError, onLeft: () => undefined }, [place]);
    assert.equal(await waiting(plain), 0);
    await domain.process();
  });

  it("take a neighbour's events next, wherever the round of projects is", async () => {
    const tell = { type: "emit_event", eventType: "told", channels: ["webhook"] };
    const lines = Array.from({ length: 20 }, () => ({ ...tell, properties: { text: "x".repeat(900) } }));
    const many: string[] = [];
    for (let i = 0; i < PROJECTS; i++) {
      const projectId = await domain.addProject();
      for (let r = 0; r < 6; r++) await publish(domain, projectId, { key: `tell${r}`, actions: lines });
      many.push(projectId);
    }
    await toOneTenant(many);
    const plain = await domain.addProject();
    await publish(domain, plain, { key: "plain" });
    const onError = (error: unknown): never => assert.fail(String(error));
    let nowMs = 0;
    const shares = new ClaimShares(() => (nowMs += 25));
    const { transact } = domain;
    const plans = createPlanCache();
    for (const projectId of many) await transact((work) => loadPlans(work, [projectId], plans));
    const options = {
      transact,
      plans,
      claimLimit: 100,
      shares,
      onError,
      onLeft: () => undefined,
    };
    let place: PartitionCursor = { part: 0, afterProject: FIRST_PROJECT };
    const claim = async (): Promise<Processed> => {
      const done = await processPartitions(options, [place]);
      place = done.again[0] ?? { part: 0, afterProject: FIRST_PROJECT };
      return done;
    };
    for (const projectId of many) await track(projectId, 60);
    // What the tenant takes is known from the first of its projects.
    for (let i = 0; i < FIRST_CLAIMS; i++) await claim();
    for (let round = 0; round < ROUNDS; round++) {
      await track(plain, 1);
      await claim();
      assert.equal(await waiting(plain), 0, `round ${round}`);
      // The others go on.
      const before = await waitingIn(many);
      await claim();
      assert.ok((await waitingIn(many)) < before);
    }
  });
});
