import { sql } from "kysely";
import type { App } from "../../../src/app.ts";
import { type JobKind, queueJob } from "../../../src/domain/long-work/project-jobs.ts";
import { bulkGrant } from "../../../src/domain/economy/rewards/references.ts";

/** A job of a project that no worker comes to, or one that has succeeded. */
export const aJob = (
  app: App,
  projectId: string,
  status: "QUEUED" | "SUCCEEDED" = "QUEUED",
  kind: JobKind = bulkGrant,
): Promise<string> =>
  app.transact(async (work) => {
    const params = { bundle: { xp: 1 }, reason: "test", playerIds: [] };
    const { id } = await queueJob(work, projectId, { kind, params, createdBy: "system" });
    const isOver = status === "SUCCEEDED";
    await sql`
      update project_jobs set status = ${status}, due_at = '2126-01-01', progress = ${isOver ? 100 : 0},
        result = ${isOver ? '{"granted": 1}' : null}::jsonb,
        finished_at = ${isOver ? work.now.toISOString() : null}
      where project_id = ${projectId} and id = ${id}`.execute(work.db);
    return id;
  });
