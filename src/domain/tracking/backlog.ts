import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";

/** Unprocessed events of a project, and commits whose effects have not reached ranks and sockets yet. */
export type Backlog = { events: number; commits: number };

export const countBacklog = async ({ db }: Work, projectId: string): Promise<Backlog> => {
  const result = await sql<{ queued: string | number; due: string | number; commits: string | number }>`
    select (select count(*) from event_q where project_id = ${projectId}) as queued,
      (select count(*) from event_due where project_id = ${projectId}) as due,
      (select count(*) from outbox_q where project_id = ${projectId}) as commits`.execute(db);
  const { queued, due, commits } = result.rows[0]!;
  return { events: Number(queued) + Number(due), commits: Number(commits) };
};
