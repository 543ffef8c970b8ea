import { type RawBuilder, sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { type IdPage, iso, type Line } from "./records.ts";

/** Records that one statement reads: each has less than 1 KiB. */
const RECORDS_AT_ONCE = 2_000;

/**
 * Reads the records of a page of lines of the ledger that belong to no event, by id; none: it was the last.
 * Lines never change, and their records hold nothing that an erasure takes from them.
 */
export const readLedgerLines = async (
  { db }: Work,
  projectId: string,
  { after, until }: IdPage,
): Promise<Line[]> => {
  const { rows } = await sql<Line>`
    select l.id::text as id, json_build_object('lineId', l.id, 'projectId', l.project_id,
      'playerId', l.player_id, 'seq', l.seq, 'asset', l.asset, 'currency', l.currency_key,
      'amount', l.amount, 'balanceAfter', l.balance_after, 'kind', l.cause->>'kind',
      'ruleKey', l.cause->>'ruleKey', 'refKey', l.cause->>'refKey', 'refId', l.cause->>'refId',
      'reverses', l.reverses, 'at', ${iso("l.created_at")})::text as text
    from ledger_entries l
    where l.project_id = ${projectId}::uuid and l.event_id is null
      and l.id > ${after}::uuid and l.id < ${until}::uuid
    order by l.id limit ${sql.lit(RECORDS_AT_ONCE)}`.execute(db);
  return rows;
};

/**
 * What was paid for a grant: the line of the price has the grant's key, which a merge of players has put its
 * own mark before.
 */
const PRICE = sql`(
  select l.currency_key as currency, -l.amount as amount from ledger_entries l
  where l.project_id = g.project_id
    and l.player_id in (
      select g.player_id union all
      select m.id from players m where m.project_id = g.project_id and m.merged_into = g.player_id)
    and l.idempotency_key = regexp_replace(g.idempotency_key, '^(mrg:[^:]*:)+', '') || ':price'
  limit 1)`;

const readGrants = async ({ db }: Work, projectId: string, where: RawBuilder<unknown>): Promise<Line[]> => {
  const { rows } = await sql<Line>`
    select g.id::text as id, json_build_object('grantId', g.id, 'projectId', g.project_id,
      'playerId', g.player_id, 'rewardKey', g.reward_key, 'quantity', g.quantity, 'status', g.status,
      'priceCurrency', p.currency, 'priceAmount', p.amount, 'kind', g.cause->>'kind',
      'ruleKey', g.cause->>'ruleKey', 'eventId', g.event_id, 'expiresAt', ${iso("g.expires_at")},
      'createdAt', ${iso("g.created_at")}, 'updatedAt', ${iso("g.updated_at")})::text as text
    from reward_grants g left join lateral ${PRICE} p on true
    where g.project_id = ${projectId}::uuid and ${where}
    order by g.id limit ${sql.lit(RECORDS_AT_ONCE)}`.execute(db);
  return rows;
};

/** Reads the records of a page of grants of rewards, by id; none: it was the last. */
export const readRewardLines = (work: Work, projectId: string, { after, until }: IdPage): Promise<Line[]> =>
  readGrants(work, projectId, sql`g.id > ${after}::uuid and g.id < ${until}::uuid`);

/** Reads the records of some grants of rewards, of as many as one page of changes has. */
export const readRewardLinesOf = (work: Work, projectId: string, ids: readonly string[]): Promise<Line[]> =>
  readGrants(work, projectId, sql`g.id = any(${`{${ids.join(",")}}`}::uuid[])`);
