import assert from "node:assert/strict";
import { changeConfig } from "../../src/domain/kernel/work.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import type { Domain } from "../support/domain/domain.ts";
import { ALL_PARTS, processParts, usersIn } from "../support/domain/process-parts.ts";
import { publish, xpOf } from "../support/domain/rule-projects.ts";
import { startDatabase } from "../support/processes/services.ts";

describe("a long change of a project's definitions", () => {
  let domain: Domain;
  let remove: () => Promise<void>;

  before(async () => {
    ({ domain, remove } = await startDatabase(5));
  });
  after(() => remove());

  const aProject = async (): Promise<string> => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "give", actions: [{ type: "grant_xp", amount: 10 }] });
    return projectId;
  };
  const onError = (error: unknown): never => assert.fail(String(error));
  const options = () => ({ transact: domain.transact, plans: createPlanCache(), claimLimit: 100, onError });
  const process = (): Promise<number> => processParts(options(), ALL_PARTS);
  it("is not starved by batches that come one after another", async () => {
    const projectId = await aProject();
    const [user] = usersIn(projectId, 0, 1);
    let isOver = false;
    let sent = 0;
    const batches = (async () => {
      while (!isOver) {
        await domain.track(projectId, [{ user: user! }]);
        sent++;
        await process();
      }
    })();
    try {
      for (let n = 0; n < 5; n++) await domain.transact((work) => changeConfig(work, projectId));
    } finally {
      isOver = true;
      await batches;
    }
    await process();
    assert.deepEqual(await xpOf(domain, projectId), { [user!]: sent * 10 });
  });
});
