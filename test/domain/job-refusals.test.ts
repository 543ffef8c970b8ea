import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import { createProjectJobs } from "../../src/jobs/jobs.ts";
import { createLog } from "../../src/log.ts";
import { getJob, queueJob } from "../../src/domain/long-work/project-jobs.ts";
import { eventRevert } from "../../src/domain/revert/revert-events.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

describe("a job that cannot be done", () => {
  const { domain } = memoryDomain();

  /** Runs a job of an event that does not exist. @returns its state, and what was logged */
  const run = async (kind: string, wrong: object = {}) => {
    const projectId = await domain.addProject();
    const params = { eventId: randomUUID(), reason: "test", onShortfall: "CLAMP", ...wrong };
    const { transact } = domain;
    const wanted = { kind: eventRevert, params, createdBy: "test" };
    const { id } = await transact((work) => queueJob(work, projectId, wanted));
    await transact(({ db }) => sql`update project_jobs set kind = ${kind} where id = ${id}`.execute(db));
    const lines: string[] = [];
    const log = createLog({ logLevel: "info" }, { write: (line) => void lines.push(line) });
    await createProjectJobs().run({ transact, log, limits: {} } as unknown as App, "*");
    const job = await transact((work) => getJob(work, { projectId, id, kinds: [kind] }));
    const logged = lines.map((line) => JSON.parse(line) as { level: string; err?: object });
    return { status: job.status, error: job.error, logged };
  };

  it("because it was asked for in vain is told to the customer, and is no error of the service", async () => {
    const { status, error, logged } = await run(eventRevert.kind);
    assert.deepEqual([status, error], ["FAILED", "event not found"]);
    assert.deepEqual(
      logged.map(({ level, err }) => [level, err]),
      [["info", undefined]],
    );
  });

  it("by this version is left to the workers of another, as it is", async () => {
    const { status, error, logged } = await run("OF_ANOTHER_VERSION");
    assert.deepEqual([status, error, logged], ["QUEUED", null, []]);
  });

  it("by a fault of the service is told to operators, with what was thrown", async () => {
    const { status, logged } = await run(eventRevert.kind, { eventId: 7 });
    assert.equal(status, "QUEUED");
    assert.deepEqual(
      logged.map(({ level, err }) => [level, err !== undefined]),
      [["error", true]],
    );
  });
});
