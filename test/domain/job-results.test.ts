import assert from "node:assert/strict";
import { bulkGrant } from "../../src/domain/economy/rewards/references.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { createResultReader, queueJob } from "../../src/domain/long-work/project-jobs.ts";
import { JobSteps } from "../../src/domain/long-work/step-job.ts";
import { JOB_KINDS } from "../../src/domain/registries/jobs/kinds.ts";
import { openDomain } from "../support/domain/domain.ts";
import { openMemoryDatabase } from "../support/domain/memory-database.ts";
import { madeOnce } from "../support/made.ts";

describe("results of jobs", () => {
  const database = madeOnce(openMemoryDatabase, (made) => made.close());

  it("are read one at a time", async () => {
    const { transact, addProject } = openDomain(database);
    const projectId = await addProject();
    const params = { bundle: { xp: 1 }, reason: "test", playerIds: [] };
    const wish = { kind: bulkGrant, params, createdBy: "test" };
    const { id } = await transact((work) => queueJob(work, projectId, wish));
    assert.ok(
      await new JobSteps({
        transact,
        kinds: JOB_KINDS,
        onError: (error) => assert.fail(String(error)),
      }).step(),
    );
    let reading = 0;
    let atOnce = 0;
    const counting: Transact = async (run) => {
      reading++;
      atOnce = Math.max(atOnce, reading);
      try {
        return await transact(run);
      } finally {
        reading--;
      }
    };
    const read = createResultReader();
    const texts = await Promise.all(
      Array.from({ length: 10 }, () => read(counting, { projectId, id, kinds: [bulkGrant.kind] })),
    );
    for (const text of texts) assert.equal(JSON.parse(text).granted, 0);
    assert.equal(atOnce, 1);
  });
});
