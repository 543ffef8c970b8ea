import assert from "node:assert/strict";
import { LONG, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import { changeConfig } from "../../src/domain/kernel/work.ts";
import { type Processed, processPartitions } from "../../src/domain/progression/claim.ts";
import { createPlanCache, loadPlans } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { eventually } from "../support/eventually.ts";
import { ALL_PARTS, type Domain, processParts, publish, usersIn, xpOf } from "../support/domain/domain.ts";
import { startDatabase } from "../support/processes/services.ts";

const xpOfEach = (users: readonly string[]) => Object.fromEntries(users.toSorted().map((user) => [user, 10]));

describe("a long change of a project's definitions", () => {
  let domain: Domain;
  let remove: () => Promise<void>;

  before(async () => {
    ({ domain, remove } = await startDatabase(5));
  });
  after(() => remove());

  const plans = createPlanCache();
  const aProject = async (): Promise<string> => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "give", actions: [{ type: "grant_xp", amount: 10 }] });
    await domain.transact((work) => loadPlans(work, [projectId], plans));
    return projectId;
  };
  const onError = (error: unknown): never => assert.fail(String(error));
  const options = () => ({ transact: domain.transact, plans, claimLimit: 100, onError });
  const process = (): Promise<number> => processParts(options(), ALL_PARTS);
  /** One claim, which does not come again for what it had to leave. */
  const claim = (): Promise<Processed> => {
    const places = ALL_PARTS.map((part) => ({ part, afterProject: FIRST_PROJECT }));
    return processPartitions({ ...options(), onLeft: () => undefined }, places);
  };

  it("keeps its own events waiting, and those of no other project of their partitions", async () => {
    const [busy, other] = [await aProject(), await aProject()];
    const [mine, theirs] = [usersIn(busy, 0, 3), usersIn(other, 0, 3)];
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => void (release = resolve));
    let isHeld = false;
    const change = withTimeouts(LONG, () =>
      domain.transact(async (work) => {
        await changeConfig(work, busy);
        isHeld = true;
        await released;
      }),
    );
    try {
      await eventually(() => isHeld);
      for (const user of mine) await domain.track(busy, [{ user }]);
      for (const user of theirs) await domain.track(other, [{ user }]);
      assert.equal((await claim()).events, theirs.length);
      assert.deepEqual(await xpOf(domain, other), xpOfEach(theirs));
    } finally {
      release();
      await change;
    }
    assert.equal(await process(), mine.length);
    assert.deepEqual(await xpOf(domain, busy), xpOfEach(mine));
  });

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
