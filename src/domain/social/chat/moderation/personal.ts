import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../../kernel/work.ts";
import type { Merging } from "../personal.ts";

/** Moves sanctions and reports of a merge's source to the target: a merge must not evade a ban. */
export const mergeModeration = async (
  { db }: Work,
  { projectId, targetId, sourceId }: Merging,
): Promise<void> => {
  await sql`
    update chat_sanctions set player_id = ${targetId}
    where project_id = ${projectId} and player_id = ${sourceId}`.execute(db);
  await sql`
    update chat_reports set sender_id = ${targetId}
    where project_id = ${projectId} and sender_id = ${sourceId}`.execute(db);
  // If both have reported the same message, it counts once.
  await sql`
    delete from chat_reports r
    where r.project_id = ${projectId} and r.reporter_id = ${sourceId} and exists (
      select 1 from chat_reports x where x.project_id = r.project_id and x.channel_id = r.channel_id
        and x.seq = r.seq and x.reporter_id = ${targetId})`.execute(db);
  await sql`
    update chat_reports set reporter_id = ${targetId}
    where project_id = ${projectId} and reporter_id = ${sourceId}`.execute(db);
};

type Ids = RawBuilder<unknown>;

/** Erases the texts of reports made by a person or about them; `ids` is an array of UUIDs. */
export const eraseReports = (projectId: string, ids: Ids): RawBuilder<unknown> => sql`
  with about as (
    update chat_reports set note = null
    where project_id = ${projectId} and sender_id = any(${ids}) and note is not null
      and (reporter_id is null or reporter_id <> all(${ids})))
  update chat_reports set note = null where project_id = ${projectId} and reporter_id = any(${ids})
  returning 1`;
