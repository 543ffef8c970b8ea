import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { LoggedAward } from "./record.ts";

export type OwnedAward = LoggedAward & { playerId: string };

/**
 * A log may contain any number of repeated awards: of those by something else since the badge was last
 * revoked, only those that raised its tier are read, and the last one.
 */
export const readAwards = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<OwnedAward[]> => {
  const found = await sql<AwardRow>`
    with log as materialized (
      select a.*, coalesce(a.event_id = any(${`{${eventIds.join(",")}}`}::uuid[]), false) as is_own,
        coalesce(a.cause->>'kind' = 'BADGE' and a.cause->>'refKey' = a.badge_key, false) as is_by_counter,
        a.cause->>'kind' = 'REVERSAL' as is_reversal
      from badge_awards a
      where a.project_id = ${projectId} and (a.player_id, a.badge_key) in (
        select player_id, badge_key from badge_awards
        where project_id = ${projectId} and event_id = any(${`{${eventIds.join(",")}}`}::uuid[]))),
    revoked as (
      select distinct on (player_id, badge_key) *, 0 as others from log where action = 'REVOKED'
      order by player_id, badge_key, created_at desc, id desc),
    standing as (
      select l.*, count(*) over w as others, max(l.tier) over (w order by l.created_at, l.id
          rows between unbounded preceding and 1 preceding) as before,
        row_number() over (w order by l.created_at desc, l.id desc) as back
      from log l left join revoked r on r.player_id = l.player_id and r.badge_key = l.badge_key
      where not l.is_own and l.action = 'AWARDED' and not exists (
          select 1 from event_results e where e.project_id = l.project_id and e.event_id = l.event_id
            and e.status = 'REVERTED')
        and (r.id is null or (l.created_at, l.id) > (r.created_at, r.id))
      window w as (partition by l.player_id, l.badge_key, l.is_by_counter)),
    a as (
      select ${COLUMNS}, 0 as others from log where is_own
      union select ${COLUMNS}, others from revoked where not is_own
      union select ${COLUMNS}, others from standing where before is null or tier > before or back = 1)
    select badge_key as "badgeKey", tier, action, serial_no as "serialNo", idempotency_key as key,
      player_id as "playerId", event_id as "eventId", is_own as "isOfEvent",
      is_by_counter as "isByCounter", is_reversal as "isReversal", others
    from a order by created_at, id`.execute(db);
  return found.rows.map((award) => ({
    ...award,
    serialNo: toNumber(award.serialNo),
    others: Number(award.others),
  }));
};

const COLUMNS = sql.raw(`badge_key, tier, action, serial_no, idempotency_key, player_id, event_id, is_own,
  is_by_counter, is_reversal, created_at, id`);

type AwardRow = Omit<OwnedAward, "serialNo" | "others"> & {
  serialNo: string | number | null;
  others: string | number;
};

const toNumber = (value: string | number | null): number | null => (value === null ? null : Number(value));
