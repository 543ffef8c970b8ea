import { sql } from "kysely";
import type { Cause } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";
import { lineCause } from "../progression/ledger-line.ts";
import { CAUSED_ROWS_MAX } from "./read-record.ts";
import type { CausedGrant, CausedLine, LostRewards } from "./record.ts";
import { tierOfKey } from "./reverse-badges.ts";
import { tooLarge } from "./too-large.ts";

/** What a player was given for tiers of badges by other events. */
export type Rewards = { lost: LostRewards[]; grants: CausedGrant[] };
type Query = {
  /** The tiers that remain, by player and key of the badge. */
  tiersOf: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
};

type Line = Omit<CausedLine, "seq" | "amount" | "cause"> & {
  seq: string | number;
  amount: string | number;
  cause: Cause;
  playerId: string;
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
 * Reads what players were given for tiers of badges above those that remain, by other events; by player.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readRewardsOfTiers = async (
  { db }: Work,
  projectId: string,
  { tiersOf, eventIds }: Query,
): Promise<Map<string, Rewards>> => {
  const wanted = [...tiersOf].flatMap(([i, tiers]) =>
    [...tiers.keys()].map((key) => ({ i, x: `bdg:${key}:` })),
  );
  if (wanted.length === 0) return new Map();
  const those = sql`(select i, array_agg(x) as xs
    from json_to_recordset(${JSON.stringify(wanted)}::json) as x(i uuid, x text) group by i) w`;
  const isOfTiers = (column: string) => sql`exists (
    select 1 from unnest(w.xs) as p(prefix) where starts_with(${sql.ref(column)}, p.prefix))`;
  const isOther = (column: string) => sql`(${sql.ref(column)} is null
    or ${sql.ref(column)} <> all(${`{${eventIds.join(",")}}`}::uuid[]))`;
  const lines = await sql<Line>`
    select l.id, l.seq, l.asset, l.currency_key as "currencyKey", l.amount, l.idempotency_key as key,
      ${lineCause("l")} as cause, l.player_id as "playerId",
      coalesce(least(e.occurred_at, e.received_at), l.created_at) as at
    from ${those} join ledger_entries l on l.project_id = ${projectId} and l.player_id = w.i
    left join tracked_events e on e.project_id = l.project_id and e.id = l.event_id
    where ${isOfTiers("l.idempotency_key")} and ${isOther("l.event_id")} and l.reverses is null
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  const grants = await sql<CausedGrant & { playerId: string }>`
    select g.id, g.reward_key as "rewardKey", g.quantity, g.status, g.idempotency_key as key, g.code,
      g.player_id as "playerId"
    from ${those} join reward_grants g on g.project_id = ${projectId} and g.player_id = w.i
    where ${isOfTiers("g.idempotency_key")} and ${isOther("g.event_id")}
      and g.status not in ('REVOKED', 'EXPIRED')
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  if (Math.max(lines.rows.length, grants.rows.length) > CAUSED_ROWS_MAX)
    throw tooLarge("too much was given for a tier of a badge");
  const isLost = ({ playerId, key }: { playerId: string; key: string }): boolean => {
    const of = tierOfKey(key);
    return of !== undefined && of.tier > (tiersOf.get(playerId)?.get(of.badgeKey) ?? Infinity);
  };
  return byPlayer([...tiersOf.keys()], lines.rows.filter(isLost), grants.rows.filter(isLost));
};

const byPlayer = (
  playerIds: readonly string[],
  lines: readonly Line[],
  grants: readonly (CausedGrant & { playerId: string })[],
): Map<string, Rewards> => {
  const linesOf = Map.groupBy(lines, ({ playerId }) => playerId);
  const grantsOf = Map.groupBy(grants, ({ playerId }) => playerId);
  return new Map(
    playerIds.map((id) => {
      const byTime = Map.groupBy(linesOf.get(id) ?? [], ({ at }) => new Date(at).getTime());
      const lost = [...byTime].map(([atMs, rows]) => ({ atMs, ledger: rows.map(lineOf) }));
      return [id, { lost, grants: grantsOf.get(id) ?? [] }];
    }),
  );
};
