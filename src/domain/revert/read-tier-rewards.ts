import { sql } from "kysely";
import type { Cause } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";
import { CAUSED_ROWS_MAX } from "./read-record.ts";
import type { CausedGrant, CausedLine, LostRewards } from "./record.ts";
import { tierOfKey } from "./reverse-badges.ts";
import { tooLarge } from "./too-large.ts";

type Rewards = { lost: LostRewards[]; grants: CausedGrant[] };
type Query = {
  /** The tiers that remain, by key of the badge. */
  tiers: ReadonlyMap<string, number>;
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
};

type Line = Omit<CausedLine, "seq" | "amount" | "cause"> & {
  seq: string | number;
  amount: string | number;
  cause: Cause;
  at: Date | string;
};

const lineOf = ({ id, seq, asset, currencyKey, amount, key, cause }: Line): CausedLine => ({
  id,
  seq: Number(seq),
  asset,
  currencyKey,
  amount: Number(amount),
  key,
  cause,
});

/**
 * Reads what a player was given for tiers of badges above those that remain, by other events.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readRewardsOfTiers = async (
  { db }: Work,
  { id: playerId, projectId }: { id: string; projectId: string },
  { tiers, eventIds }: Query,
): Promise<Rewards> => {
  if (tiers.size === 0) return { lost: [], grants: [] };
  const prefixes = JSON.stringify([...tiers.keys()].map((key) => `bdg:${key}:`));
  const isOfTiers = (column: string) => sql`exists (
    select 1 from json_array_elements_text(${prefixes}::json) as x(prefix)
    where starts_with(${sql.ref(column)}, x.prefix))`;
  const isOther = (column: string) => sql`(${sql.ref(column)} is null
    or ${sql.ref(column)} <> all(${`{${eventIds.join(",")}}`}::uuid[]))`;
  const lines = await sql<Line>`
    select l.id, l.seq, l.asset, l.currency_key as "currencyKey", l.amount, l.idempotency_key as key, l.cause,
      coalesce(least(e.occurred_at, e.received_at), l.created_at) as at
    from ledger_entries l
    left join tracked_events e on e.project_id = l.project_id and e.id = l.event_id
    where l.project_id = ${projectId} and l.player_id = ${playerId} and ${isOfTiers("l.idempotency_key")}
      and ${isOther("l.event_id")} and l.reverses is null
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  const grants = await sql<CausedGrant>`
    select g.id, g.reward_key as "rewardKey", g.quantity, g.status, g.idempotency_key as key, g.code
    from reward_grants g
    where g.project_id = ${projectId} and g.player_id = ${playerId} and ${isOfTiers("g.idempotency_key")}
      and ${isOther("g.event_id")} and g.status not in ('REVOKED', 'EXPIRED')
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  if (Math.max(lines.rows.length, grants.rows.length) > CAUSED_ROWS_MAX)
    throw tooLarge("too much was given for a tier of a badge");
  const isLost = ({ key }: { key: string }): boolean => {
    const of = tierOfKey(key);
    return of !== undefined && of.tier > (tiers.get(of.badgeKey) ?? Infinity);
  };
  const byTime = Map.groupBy(lines.rows.filter(isLost), ({ at }) => new Date(at).getTime());
  return {
    lost: [...byTime].map(([atMs, rows]) => ({ atMs, ledger: rows.map(lineOf) })),
    grants: grants.rows.filter(isLost),
  };
};
