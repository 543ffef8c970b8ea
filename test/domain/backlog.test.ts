import assert from "node:assert/strict";
import { addLook, type Look, rateSince, readBacklog } from "../../src/domain/tracking/backlog.ts";
import { memoryDomain } from "../support/domain/domain.ts";

describe("the backlog of a project", () => {
  const { domain } = memoryDomain();

  const NOTHING = {
    events: { waiting: 0, later: 0, oldestSeconds: null, perSecond: null },
    commits: { waiting: 0, oldestSeconds: null },
  };
  const backlogOf = (projectId: string, laterMs = 0) =>
    domain.transact((work) =>
      readBacklog({ ...work, serverNow: new Date(work.serverNow.getTime() + laterMs) }, projectId),
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

describe("the rate at which events are processed", () => {
  it("is that of the last minute, and not known before five seconds of it", () => {
    let looks: readonly Look[] = [];
    const rates = [0, 4, 5, 30, 90].map((second) => {
      const look = { atMs: 1_000 * second, processed: second < 30 ? 100 * second : 10 * second + 2_700 };
      looks = addLook(looks, look);
      return rateSince(looks, look);
    });
    assert.deepEqual(rates, [null, null, 100, 100, null]);
  });

  it("takes one look a second, however often somebody asks", () => {
    let looks: readonly Look[] = [];
    for (let atMs = 0; atMs < 120_000; atMs += 10) looks = addLook(looks, { atMs, processed: 0 });
    assert.equal(looks.length, 60);
  });
});
