import { sql } from "kysely";
import type { App } from "../../src/app.ts";

/** The error of events that tests have fail. */
export const MADE_TO_FAIL = "made to fail";

/** Has an event that was processed look as if it had been given up; its id. */
export const failed = async ({ transact }: Pick<App, "transact">, projectId: string, eventId: string) => {
  await transact(({ db }) =>
    sql`
      insert into event_results (project_id, event_id, status, error, attempts, processed_at)
      values (${projectId}, ${eventId}, 'FAILED', ${MADE_TO_FAIL}, 4, now())`.execute(db),
  );
  return eventId;
};
