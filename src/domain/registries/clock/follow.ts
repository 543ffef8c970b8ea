import { sql } from "kysely";
import { inProjectTime } from "../../accounts/projects/project.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { clockAdvance, settleNext } from "./test-clock.ts";

/** Sandboxes of a page. */
const SANDBOXES_AT_ONCE = 500;

/**
 * Returns the next sandboxes by id, after one, whose clocks are ahead of the server's and that are not being
 * advanced; none behind the last.
 */
export const sandboxesAhead = async ({ db }: Work, after = NIL_ID): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id from projects p
    where id > ${after}::uuid and clock_ahead_ms > 0 and deleted_at is null and not exists (
      select from project_jobs j where j.project_id = p.id and j.kind = ${clockAdvance.kind}
        and j.status in ('QUEUED', 'RUNNING'))
    order by id limit ${SANDBOXES_AT_ONCE}`.execute(db);
  return rows.map(({ id }) => id);
};

/** Does the next of what is due by the clock of a sandbox. @returns whether anything could be done */
export const followClock = async (work: Work, projectId: string): Promise<boolean> => {
  const done = await settleNext(await inProjectTime(work, projectId), projectId);
  return done.what === "DONE";
};
