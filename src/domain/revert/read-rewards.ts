import { type RawBuilder, sql } from "kysely";
import type { Cause } from "../kernel/events/events.ts";
import type { Work } from "../kernel/work.ts";
import { lineCause } from "../progression/ledger-line.ts";
import { CAUSED_ROWS_MAX } from "./read-record.ts";
import type { CausedGrant, CausedLine, LostRewards } from "./record.ts";
import { tooLarge } from "./too-large.ts";

/** What a player was given for what is lost. */
export type Rewards = { lost: LostRewards[]; grants: CausedGrant[] };

type OwnedGrant = CausedGrant & { playerId: string };

/** A ledger entry of a reward as it is read. */
type RewardLine = Omit<CausedLine, "seq" | "amount" | "cause"> & {
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

type Query = {
  /** Item of FROM named `w`, with the players as `i`. */
  those: RawBuilder<unknown>;
  /** Whether a reward is lost, by its key and the column of the event that has given it. */
  isLost: (key: RawBuilder<unknown>, eventId: RawBuilder<unknown>) => RawBuilder<unknown>;
  playerIds: readonly string[];
  /** Events whose effects are read elsewhere. */
  eventIds: readonly string[];
  /** What it was given for, in words. */
  what: string;
};

/**
 * Reads what other events and requests have given of lost rewards; by player.
 * @throws DomainError CONFLICT EVENT_TOO_LARGE
 */
export const readRewards = async (
  { db }: Work,
  projectId: string,
  { those, isLost, playerIds, eventIds, what }: Query,
): Promise<Map<string, Rewards>> => {
  const isWanted = (table: "l" | "g") => {
    const eventId = sql.ref(`${table}.event_id`);
    return sql`${isLost(sql.ref(`${table}.idempotency_key`), eventId)}
      and (${eventId} is null or ${eventId} <> all(${`{${eventIds.join(",")}}`}::uuid[]))`;
  };
  const lines = await sql<RewardLine>`
    select l.id, l.seq, l.asset, l.currency_key as "currencyKey", l.amount, l.idempotency_key as key,
      ${lineCause("l")} as cause, l.player_id as "playerId",
      coalesce(least(e.occurred_at, e.received_at), l.created_at) as at
    from ${those} join ledger_entries l on l.project_id = ${projectId} and l.player_id = w.i
    left join tracked_events e on e.project_id = l.project_id and e.id = l.event_id
    where ${isWanted("l")} and l.reverses is null
      and not exists (select 1 from ledger_entries r where r.project_id = l.project_id
        and r.player_id = l.player_id and r.idempotency_key = 'rev:' || l.id)
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  const grants = await sql<OwnedGrant>`
    select g.id, g.reward_key as "rewardKey", g.quantity, g.status, g.idempotency_key as key, g.code,
      g.player_id as "playerId"
    from ${those} join reward_grants g on g.project_id = ${projectId} and g.player_id = w.i
    where ${isWanted("g")} and g.status not in ('REVOKED', 'EXPIRED')
    limit ${sql.lit(CAUSED_ROWS_MAX + 1)}`.execute(db);
  if (Math.max(lines.rows.length, grants.rows.length) > CAUSED_ROWS_MAX)
    throw tooLarge(`too much was given for ${what}`);
  return rewardsByPlayer(playerIds, lines.rows, grants.rows);
};

/** Sorts what was read by player, and by the time at which it was given. */
const rewardsByPlayer = (
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
