import { sql } from "kysely";
import type { Cause } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";
import { lineCause } from "../progression/ledger-line.ts";
import { CAUSED_ROWS_MAX } from "./read-record.ts";
import type { CausedGrant, CausedLine, LostRewards } from "./record.ts";
import { tooLarge } from "./too-large.ts";

/** What a player was given for tiers of badges by other events. */
export type Rewards = { lost: LostRewards[]; grants: CausedGrant[] };
export type OwnedGrant = CausedGrant & { playerId: string };
/** Tiers and repeated awards of a badge whose rewards are taken back. */
export type LostOfBadge = {
  badgeKey: string;
  /** Tiers from this one to that one. */
  from: number;
  to: number;
  /** Awards with a higher number than this. */
  above: number;
  /** Only what events have given that were reverted before. */
  isOfReverted: boolean;
};

type Query = {
  /** By player. */
  lostOf: ReadonlyMap<string, readonly LostOfBadge[]>;
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
};

/** No badge has as many tiers or awards. */
const NUMBER_MAX = 2_147_483_647;
/** The number of an award, and its tier, in the keys of its rewards. */
const TIMES = "^bdg:[^:]+:([0-9]+)";
const TIER = "^bdg:[^:]+:[0-9]+:([0-9]+)";

/** A ledger entry of a reward as it is read. */
export type RewardLine = Omit<CausedLine, "seq" | "amount" | "cause"> & {
  seq: string | number;
  amount: string | number;
  cause: Cause;
  playerId: string;
  at: Date | string;
};

const lineOf = ({ id, seq, asset, currencyKey, amount, key, cause }: RewardLine): CausedLine => ({
  id,
  seq: Number(seq),
  asset,
  currencyKey,
  amount: Number(amount),
  key,
  cause,
});

/**
 * Reads what players were given for awards of badges that are lost, by other events; by player.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readRewardsOfTiers = async (
  { db }: Work,
  projectId: string,
  { lostOf, eventIds }: Query,
): Promise<Map<string, Rewards>> => {
  const wanted = [...lostOf].flatMap(([i, all]) =>
    all.map(({ badgeKey, from, to, above, isOfReverted }) => ({
      i,
      x: `bdg:${badgeKey}:`,
      f: from,
      t: Math.min(to, NUMBER_MAX),
      n: Math.min(above, NUMBER_MAX),
      r: isOfReverted,
    })),
  );
  if (wanted.length === 0) return new Map();
  const those = sql`(select i, json_agg(json_build_object('x', x, 'f', f, 't', t, 'n', n, 'r', r)) as xs
    from json_to_recordset(${JSON.stringify(wanted)}::json) as x(i uuid, x text, f int, t int, n int, r bool)
    group by i) w`;
  const isLost = (table: "l" | "g") => sql`exists (
    select 1 from json_to_recordset(w.xs) as p(x text, f int, t int, n int, r bool)
    where starts_with(${sql.ref(`${table}.idempotency_key`)}, p.x)
      and (substring(${sql.ref(`${table}.idempotency_key`)} from ${TIER})::int between p.f and p.t
        or substring(${sql.ref(`${table}.idempotency_key`)} from ${TIMES})::int > p.n)
      and (not p.r or exists (select 1 from event_results e where e.project_id = ${projectId}
        and e.event_id = ${sql.ref(`${table}.event_id`)} and e.status = 'REVERTED')))`;
  const isOther = (column: string) => sql`(${sql.ref(column)} is null
    or ${sql.ref(column)} <> all(${`{${eventIds.join(",")}}`}::uuid[]))`;
  const lines = await sql<RewardLine>`
    select l.id, l.seq, l.asset, l.currency_key as "currencyKey", l.amount, l.idempotency_key as key,
      ${lineCause("l")} as cause, l.player_id as "playerId",
      coalesce(least(e.occurred_at, e.received_at), l.created_at) as at
    from ${those} join ledger_entries l on l.project_id = ${projectId} and l.player_id = w.i
    left join tracked_events e on e.project_id = l.project_id and e.id = l.event_id
    where ${isLost("l")} and ${isOther("l.event_id")} and l.reverses is null
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  const grants = await sql<OwnedGrant>`
    select g.id, g.reward_key as "rewardKey", g.quantity, g.status, g.idempotency_key as key, g.code,
      g.player_id as "playerId"
    from ${those} join reward_grants g on g.project_id = ${projectId} and g.player_id = w.i
    where ${isLost("g")} and ${isOther("g.event_id")}
      and g.status not in ('REVOKED', 'EXPIRED')
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  if (Math.max(lines.rows.length, grants.rows.length) > CAUSED_ROWS_MAX)
    throw tooLarge("too much was given for a tier of a badge");
  return rewardsByPlayer([...lostOf.keys()], lines.rows, grants.rows);
};

/** Sorts what was read by player, and by the time at which it was given. */
export const rewardsByPlayer = (
  playerIds: readonly string[],
  lines: readonly RewardLine[],
  grants: readonly OwnedGrant[],
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
