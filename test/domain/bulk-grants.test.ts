import assert from "node:assert/strict";
import { sql } from "kysely";
import { bulkGrant } from "../../src/domain/economy/rewards/references.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { queueJob } from "../../src/domain/long-work/project-jobs.ts";
import { JobSteps } from "../../src/domain/long-work/step-job.ts";
import { JOB_KINDS } from "../../src/domain/registries/jobs/kinds.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

describe("bulk grants", () => {
  const { domain } = memoryDomain();

  it("reach everybody where this process has not seen the project's many definitions yet", async () => {
    const projectId = await domain.addProject();
    const players = await Promise.all(["ann", "bob", "cy"].map((name) => domain.addPlayer(projectId, name)));
    const badges = Array.from({ length: 200 }, (_, i) => {
      const [key, description] = [`badge-${i}`, "x".repeat(2_000)];
      return {
        id: newId(),
        key,
        definition: { key, name: key, description, tiers: [{ tier: 1, name: "T", rewards: {} }] },
      };
    });
    await domain.transact(async ({ db }) => {
      await sql`
        insert into definitions (id, project_id, kind, key, name, definition, status, version, created_by,
          created_at, updated_at)
        select id, ${projectId}::uuid, 'badge', key, key, definition, 'ACTIVE', 1, 'test', now(), now()
        from json_to_recordset(${JSON.stringify(badges)}::json) as r(id uuid, key text, definition jsonb)`.execute(
        db,
      );
      await sql`update projects set config_version = config_version + 1 where id = ${projectId}`.execute(db);
    });
    const params = { bundle: { xp: 5 }, reason: "test", playerIds: players };
    await domain.transact((work) =>
      queueJob(work, projectId, { kind: bulkGrant, params, createdBy: "test" }),
    );
    const { transact } = domain;
    const onError = (error: unknown) => assert.fail(String(error));
    const steps = new JobSteps({ transact, kinds: JOB_KINDS, onError });
    while (await steps.step());
    const { rows } = await domain.transact(({ db }) =>
      sql<{ result: object }>`select result from project_jobs where project_id = ${projectId}`.execute(db),
    );
    assert.deepEqual(rows[0]!.result, { granted: 3, skipped: 0, failed: 0 });
  });
});
