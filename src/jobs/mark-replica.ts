import { sql } from "kysely";
import type { Job } from "./job.ts";

/**
 * Writes a mark into the log that a replica follows, so that it knows how far it has come also when nothing
 * else is written: it goes by the time of the last transaction.
 */
export const markReplica: Job = {
  concurrency: 1,
  everyMs: 5_000,
  run: async (app) => {
    if (app.config.analyticsDatabaseUrl === undefined) return;
    await app.transact(({ db }) => sql`select pg_logical_emit_message(true, 'laurel', 'mark')`.execute(db));
  },
};
