import { sql } from "kysely";
import type { App } from "../../src/app.ts";

/** Has an event that was processed look as if it had been given up; its id. */
export const failed = async ({ transact }: Pick<App, "transact">, projectId: string, eventId: string) => {
  await transact(({ db }) =>
    sql`
      insert into event_results (project_id, event_id, status, error, attempts, processed_at)
      values (${projectId}, ${eventId}, 'FAILED', 'made to', 4, now())`.execute(db),
  );
  return eventId;
};
