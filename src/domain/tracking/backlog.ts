import { sql } from "kysely";
import { timeOfId, OUTBOX_PARTITIONS, PARTITIONS } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import { rateOf } from "./processing-rate.ts";

/** What a project has waiting. Ages are in seconds, null where nothing waits. */
export type BacklogView = {
  /** `later`: waiting for another try or for their time. `perSecond`: processed lately; null if not known. */
  events: { waiting: number; later: number; oldestSeconds: number | null; perSecond: number | null };
  /** Commits that have not reached ranks, rooms and webhooks. */
  commits: { waiting: number; oldestSeconds: number | null };
};

type Row = {
  waiting: string | number;
  later: string | number;
  commits: string | number;
  event_id: string | null;
  outbox_id: string | null;
  processed: string | number | null;
};

/**
 * Reads what a project has waiting, and how old the oldest of it is. The rate is that of the types' totals,
 * which workers record every 5 s.
 */
export const readBacklog = async ({ db, serverNow }: Work, projectId: string): Promise<BacklogView> => {
  // One index look-up per partition.
  const { rows } = await sql<Row>`
    select (select count(*) from event_q where project_id = ${projectId}::uuid) as waiting,
      (select count(*) from event_due where project_id = ${projectId}::uuid) as later,
      (select count(*) from outbox_q where project_id = ${projectId}::uuid) as commits,
      (select min(q.id::text) from generate_series(0, ${sql.lit(PARTITIONS - 1)}) as p(part)
        cross join lateral (
          select event_id as id from event_q where part = p.part and project_id = ${projectId}::uuid
          order by seq limit 1) q) as event_id,
      (select min(q.id::text) from generate_series(0, ${sql.lit(OUTBOX_PARTITIONS - 1)}) as p(part)
        cross join lateral (
          select outbox_ids[1] as id from outbox_q where part = p.part and project_id = ${projectId}::uuid
          order by seq limit 1) q) as outbox_id,
      (select sum(total) from event_types where project_id = ${projectId}::uuid) as processed`.execute(db);
  const row = rows[0]!;
  const age = (id: string | null): number | null =>
    id === null ? null : Math.max(0, Math.round((serverNow.getTime() - timeOfId(id)) / 1_000));
  return {
    events: {
      waiting: Number(row.waiting),
      later: Number(row.later),
      oldestSeconds: age(row.event_id),
      perSecond: rateOf(projectId, { atMs: performance.now(), processed: Number(row.processed) }),
    },
    commits: { waiting: Number(row.commits), oldestSeconds: age(row.outbox_id) },
  };
};
