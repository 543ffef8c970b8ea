import { sql } from "kysely";
import type { App } from "../../../src/app.ts";

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

/**
 * Has the actions of a rule throw for every event. No request can bring that about, so the rule that runs is
 * damaged.
 */
export const damageRule = async ({ transact }: Pick<App, "transact">, projectId: string, key: string) => {
  await transact(async ({ db }) => {
    await sql`
      update rule_versions v set definition = jsonb_set(definition, '{actions,0,rounding}', '"SIDEWAYS"')
      from rules r where r.id = v.rule_id and r.project_id = ${projectId} and r.key = ${key}`.execute(db);
    await sql`update projects set config_version = config_version + 1 where id = ${projectId}`.execute(db);
  });
};

/** Events that failed are tried again at once; by themselves, all tries take 71 seconds. */
export const makeDue = async ({ transact }: Pick<App, "transact">, projectId: string) => {
  await transact(({ db }) =>
    sql`update event_due set due_at = now() - interval '1 minute' where project_id = ${projectId}`.execute(
      db,
    ),
  );
};
