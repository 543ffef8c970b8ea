import assert from "node:assert/strict";
import { sql } from "kysely";
import { listJobs } from "../../src/domain/long-work/project-jobs.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { CPU_SLACK, leastBlockMs } from "../support/cpu.ts";

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;
const PAGE = { page: 1, limit: 100 };
const JOBS = 100;
const RESULT_BYTES = 2_000_000;

describe("CPU of lists of large documents", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  /** Rows of long work that has come to megabytes. */
  const addJobs = (): Promise<unknown> =>
    api.app.transact(({ db }) =>
      sql`
        insert into project_jobs (project_id, id, kind, status, params, result, created_by, created_at,
          updated_at, due_at, finished_at)
        select ${tenant.projectId}::uuid, gen_random_uuid(), 'PLAYER_EXPORT', 'SUCCEEDED', '{}',
          jsonb_build_object('text', repeat('x', ${RESULT_BYTES}::int)), 'test', now(), now(), now(), now()
        from generate_series(1, ${JOBS}::int)`.execute(db),
    );

  it("of jobs reads nothing of what they have come to", async () => {
    await addJobs();
    const list = (work: Work) => listJobs(work, tenant.projectId, { ...PAGE, kinds: ["PLAYER_EXPORT"] });
    assert.equal((await api.app.transact(list)).jobs.length, JOBS);
    const blockMs = await leastBlockMs(() => api.app.transact(list), BLOCK_MAX_MS);
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
    const [{ id }] = must(await api.get("/api/v1/jobs?limit=1", { key: tenant.key }), 200).data;
    const result = must(await api.get(`/api/v1/jobs/${id}/result`, { key: tenant.key }), 200);
    assert.equal(result.text.length, RESULT_BYTES);
  });
});
