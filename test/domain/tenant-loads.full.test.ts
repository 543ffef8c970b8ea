import assert from "node:assert/strict";
import { sql } from "kysely";
import { processPartitions } from "../../src/domain/progression/claim.ts";
import { BUSY_STEPS, ClaimShares, TenantLoads } from "../../src/domain/progression/claim-shares.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { rowsOf } from "../support/domain/rule-projects.ts";
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
});

describe("claims where tenants take much by many projects", () => {
  /** Projects of which each takes less of a claim than would make it dear. */
  const PROJECTS = 10;
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
});
