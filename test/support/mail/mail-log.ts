import { sql } from "kysely";
import type { App } from "../../../src/app.ts";

/** The templates of the mails to an address, oldest first, as the log has them. */
export const mailedTo = ({ transact }: Pick<App, "transact">, to: string): Promise<string[]> =>
  transact(async ({ db }) => {
    const { rows } = await sql<{ template: string }>`
      select template from email_logs where "to" = ${to} order by created_at, id`.execute(db);
    return rows.map(({ template }) => template);
  });
