import assert from "node:assert/strict";
import { changeConfig } from "../../src/domain/kernel/config-lock.ts";
import { partitionOf } from "../../src/domain/kernel/ids.ts";
import { type Processed, processPartitions } from "../../src/domain/progression/claim.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventually } from "../support/eventually.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { ALL_PARTS, processParts } from "../support/domain/process-parts.ts";
import { publish, xpOf } from "../support/domain/rule-projects.ts";

/** Ids of players whose events wait in one partition, the first one, for a project. */
const usersOf = (projectId: string, count: number): string[] => {
  const found: string[] = [];
  for (let n = 0; found.length < count; n++) if (partitionOf(projectId, `u${n}`) === 0) found.push(`u${n}`);
  return found;
};

const xpOfEach = (users: readonly string[]) => Object.fromEntries(users.toSorted().map((user) => [user, 10]));

describe("a long change of a project's definitions", function () {
  this.timeout(60_000);
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let domain: Domain;

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    database = await openPostgres(services.databaseUrl, 5);
    await database.migrateUp();
    domain = openDomain(database);
  });
  after(async () => {
    await database?.close();
    await services?.remove();
    await directory?.remove();
  });

  const aProject = async (): Promise<string> => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "give", actions: [{ type: "grant_xp", amount: 10 }] });
    return projectId;
  };
  const onError = (error: unknown): never => assert.fail(String(error));
  const options = () => ({ transact: domain.transact, plans: createPlanCache(), claimLimit: 100, onError });
  const process = (): Promise<number> => processParts(options(), ALL_PARTS);
  /** One claim, which does not come again for what it had to leave. */
  const claim = (): Promise<Processed> => {
    const places = ALL_PARTS.map((part) => ({ part, afterProject: FIRST_PROJECT }));
    return processPartitions({ ...options(), onLeft: () => undefined }, places);
  };

  it("keeps its own events waiting, and those of no other project of their partitions", async () => {
    const [busy, other] = [await aProject(), await aProject()];
    const [mine, theirs] = [usersOf(busy, 3), usersOf(other, 3)];
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => void (release = resolve));
    let isHeld = false;
    const change = domain.transact(async (work) => {
      await changeConfig(work, busy);
      isHeld = true;
      await released;
    });
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
    const [user] = usersOf(projectId, 1);
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
