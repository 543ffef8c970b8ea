import { sql } from "kysely";
import { inProjectTime } from "../../accounts/projects/clock.ts";
import type { Work } from "../../kernel/work.ts";
import { clockAdvance } from "./advance.ts";
import { settleNext } from "./settle-next.ts";

/** Maximum sandboxes of one round. */
const SANDBOXES_MAX = 1_000;

/** Returns the sandboxes whose clocks are ahead of the server's, and not being advanced. */
export const sandboxesAhead = async ({ db }: Work): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id from projects p
    where clock_ahead_ms > 0 and deleted_at is null and not exists (
      select from project_jobs j where j.project_id = p.id and j.kind = ${clockAdvance.kind}
        and j.status in ('QUEUED', 'RUNNING'))
    order by id limit ${SANDBOXES_MAX}`.execute(db);
  return rows.map(({ id }) => id);
};

/** Does the next of what is due by the clock of a sandbox. @returns whether anything could be done */
export const followClock = async (work: Work, projectId: string): Promise<boolean> => {
  const done = await settleNext(await inProjectTime(work, projectId), projectId);
  return done.what === "DONE";
};
