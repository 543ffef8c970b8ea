import { type RawBuilder, sql } from "kysely";

type Sql = RawBuilder<unknown>;

/** Inserts outbox rows. @param rows a JSON list of `OutboxRow`s @param now time of creation */
export const insertOutbox = (rows: Sql, now: Sql): Sql => sql`
  insert into outbox (project_id, id, type, player_id, player_seq, event_id, data, lines, bytes, created_at)
  select "projectId", id, type, "playerId", "playerSeq", "eventId", data, lines, octet_length(data::text),
    ${now}
  from jsonb_to_recordset(${rows}::jsonb) as x("projectId" uuid, id uuid, type text, "playerId" uuid,
    "playerSeq" bigint, "eventId" uuid, data jsonb, lines smallint)`;

/** Inserts the queue rows of outbox rows. @param rows a JSON list of `OutboxQueueRow`s */
export const insertOutboxQueue = (rows: Sql): Sql => sql`
  insert into outbox_q (project_id, part, outbox_ids)
  select project_id, part, ids from json_to_recordset(${rows}::json)
    as x(project_id uuid, part smallint, ids uuid[])`;
