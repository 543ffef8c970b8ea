import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { LoggedAward } from "./record.ts";

export type OwnedAward = LoggedAward & { eventId: string | null; playerId: string };

/** A log may contain any number of repeated awards: only the decisive ones are read. */
export const readAwards = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<OwnedAward[]> => {
  const found = await sql<AwardRow>`
    with log as materialized (
      select a.*, coalesce(a.event_id = any(${`{${eventIds.join(",")}}`}::uuid[]), false) as is_own
      from badge_awards a
      where a.project_id = ${projectId} and (a.player_id, a.badge_key) in (
        select player_id, badge_key from badge_awards
        where project_id = ${projectId} and event_id = any(${`{${eventIds.join(",")}}`}::uuid[]))),
    revoked as (
      select distinct on (player_id, badge_key) * from log where action = 'REVOKED'
      order by player_id, badge_key, created_at desc, id desc),
    highest as (
      select distinct on (l.player_id, l.badge_key) l.* from log l
      left join revoked r on r.player_id = l.player_id and r.badge_key = l.badge_key
      where not l.is_own and l.action = 'AWARDED' and not exists (
          select 1 from event_results e where e.project_id = l.project_id and e.event_id = l.event_id
            and e.status = 'REVERTED')
        and (r.id is null or (l.created_at, l.id) > (r.created_at, r.id))
      order by l.player_id, l.badge_key, l.tier desc, l.id),
    a as (select * from log where is_own union select * from revoked union select * from highest)
    select badge_key as "badgeKey", tier, action, serial_no as "serialNo", idempotency_key as key,
      player_id as "playerId", event_id as "eventId", is_own as "isOfEvent",
      coalesce(cause->>'kind' = 'BADGE' and cause->>'refKey' = badge_key, false) as "isByCounter"
    from a order by created_at, id`.execute(db);
  return found.rows.map((award) => ({ ...award, serialNo: toNumber(award.serialNo) }));
};

type AwardRow = Omit<OwnedAward, "serialNo"> & { serialNo: string | number | null };

const toNumber = (value: string | number | null): number | null => (value === null ? null : Number(value));
