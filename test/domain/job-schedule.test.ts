import assert from "node:assert/strict";
import fc from "fast-check";
import { JobSchedule } from "../../src/domain/long-work/step-job.ts";

describe("the schedule of long work", () => {
  const dues = (tenants: readonly string[]) => tenants.map((tenantId) => ({ projectId: tenantId, tenantId }));

  it("gives tenants the same time up to one step, however long their steps are", () => {
    const costs = fc.array(fc.array(fc.integer({ min: 1, max: 1_000 }), { minLength: 1 }), { minLength: 2 });
    fc.assert(
      fc.property(costs, (stepsOf) => {
        const schedule = new JobSchedule();
        const tenants = stepsOf.map((_, n) => String(n));
        const spent = new Map(tenants.map((tenant) => [tenant, 0]));
        for (let n = 0; n < 200; n++) {
          const [next] = schedule.order(dues(tenants));
          const steps = stepsOf[Number(next!.tenantId)]!;
          const ms = steps[n % steps.length]!;
          schedule.took(next!.tenantId, ms);
          spent.set(next!.tenantId, spent.get(next!.tenantId)! + ms);
          const all = [...spent.values()];
          assert.ok(Math.max(...all) - Math.min(...all) <= Math.max(...stepsOf.flat()));
        }
      }),
    );
  });

  it("owes nobody the time in which they had no work, and takes none back from them", () => {
    const schedule = new JobSchedule();
    for (let n = 0; n < 10; n++) {
      schedule.order(dues(["early"]));
      schedule.took("early", 100);
    }
    const served: string[] = [];
    for (let n = 0; n < 6; n++) {
      const [next] = schedule.order(dues(["early", "late"]));
      schedule.took(next!.tenantId, 100);
      served.push(next!.tenantId);
    }
    assert.deepEqual(served.toSorted(), ["early", "early", "early", "late", "late", "late"]);
  });
});
