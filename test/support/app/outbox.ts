import { sql } from "kysely";
import type { App } from "../../../src/app.ts";

/** The data of a project's domain events of one type, oldest first. */
export const emitted = <T>(
  { transact }: Pick<App, "transact">,
  projectId: string,
  type: string,
): Promise<T[]> =>
  transact(async ({ db }) => {
    const { rows } = await sql<{ data: T }>`
      select data from outbox where project_id = ${projectId} and type = ${type} order by id`.execute(db);
    return rows.map(({ data }) => data);
  });
