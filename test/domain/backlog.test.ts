import assert from "node:assert/strict";
import { readBacklog } from "../../src/domain/tracking/backlog.ts";
import type { Database } from "../../src/platform/database.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { openMemoryDatabase } from "../support/domain/memory-database.ts";

describe("the backlog of a project", function () {
  this.timeout(60_000);
  let database: Database;
  let domain: Domain;
  before(async () => {
    database = await openMemoryDatabase();
    domain = openDomain(database);
  });
  after(() => database.close());

  const NOTHING = {
    events: { waiting: 0, later: 0, oldestSeconds: null, perSecond: null },
    commits: { waiting: 0, oldestSeconds: null },
  };
  const backlogOf = (projectId: string, laterMs = 0) =>
    domain.transact((work) =>
      readBacklog({ ...work, now: new Date(work.now.getTime() + laterMs) }, projectId),
    );

  it("counts its own events and commits until they are published, with their ages", async () => {
    const [projectId, other] = [await domain.addProject(), await domain.addProject()];
    assert.deepEqual(await backlogOf(projectId), NOTHING);
    await domain.track(
      projectId,
      ["ada", "ben", "cho"].map((user) => ({ user })),
    );
    await domain.track(other, [{ user: "ada" }]);
    const { events, commits } = await backlogOf(projectId, 60_000);
    assert.deepEqual([events.waiting, events.later, commits.waiting], [3, 0, 0]);
    assert.ok(events.oldestSeconds! >= 60 && events.oldestSeconds! < 120, String(events.oldestSeconds));
    await domain.process();
    const processed = await backlogOf(projectId, 60_000);
    assert.deepEqual(processed.events, NOTHING.events);
    assert.ok(processed.commits.waiting > 0);
    assert.ok(processed.commits.oldestSeconds! >= 60);
    await domain.relay();
    assert.deepEqual(await backlogOf(projectId), NOTHING);
  });
});
