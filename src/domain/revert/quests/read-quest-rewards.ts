import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { lineCause } from "../../progression/ledger-line.ts";
import { CAUSED_ROWS_MAX } from "../read-record.ts";
import { type OwnedGrant, rewardsByPlayer, type Rewards, type RewardLine } from "../read-tier-rewards.ts";
import { tooLarge } from "../too-large.ts";

/** The reward of a quest in the keys of its lines and grants: see `rewardOfQuest`. */
const REWARD = "^(q:[^:]+:(?:complete|start|s:[^:~]+))[:~]?";

type Query = {
  /** Rewards of quests, as `rewardOfQuest` names them, by player. */
  lostOf: ReadonlyMap<string, ReadonlySet<string>>;
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
};

/**
 * Reads what players were given for steps and quests that are lost, by requests and other events; by player.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readQuestRewards = async (
  { db }: Work,
  projectId: string,
  { lostOf, eventIds }: Query,
): Promise<Map<string, Rewards>> => {
  const wanted = [...lostOf].flatMap(([i, keys]) => (keys.size === 0 ? [] : [{ i, ks: [...keys] }]));
  if (wanted.length === 0) return new Map();
  const those = sql`json_to_recordset(${JSON.stringify(wanted)}::json) as w(i uuid, ks json)`;
  const isLost = (table: "l" | "g") => sql`starts_with(${sql.ref(`${table}.idempotency_key`)}, 'q:')
    and substring(${sql.ref(`${table}.idempotency_key`)} from ${REWARD})
      in (select json_array_elements_text(w.ks))
    and (${sql.ref(`${table}.event_id`)} is null
      or ${sql.ref(`${table}.event_id`)} <> all(${`{${eventIds.join(",")}}`}::uuid[]))`;
  const lines = await sql<RewardLine>`
    select l.id, l.seq, l.asset, l.currency_key as "currencyKey", l.amount, l.idempotency_key as key,
      ${lineCause("l")} as cause, l.player_id as "playerId",
      coalesce(least(e.occurred_at, e.received_at), l.created_at) as at
    from ${those} join ledger_entries l on l.project_id = ${projectId} and l.player_id = w.i
    left join tracked_events e on e.project_id = l.project_id and e.id = l.event_id
    where ${isLost("l")} and l.reverses is null
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  const grants = await sql<OwnedGrant>`
    select g.id, g.reward_key as "rewardKey", g.quantity, g.status, g.idempotency_key as key, g.code,
      g.player_id as "playerId"
    from ${those} join reward_grants g on g.project_id = ${projectId} and g.player_id = w.i
    where ${isLost("g")} and g.status not in ('REVOKED', 'EXPIRED')
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  if (Math.max(lines.rows.length, grants.rows.length) > CAUSED_ROWS_MAX)
    throw tooLarge("too much was given for quests");
  return rewardsByPlayer([...lostOf.keys()], lines.rows, grants.rows);
};
