import assert from "node:assert/strict";
import { type RawBuilder, sql } from "kysely";
import type { Transact } from "../../../src/domain/kernel/work.ts";
import type { Warehouse } from "./load.ts";

type Row = Record<string, unknown>;

const byText = (rows: readonly unknown[]): string[] => rows.map((row) => JSON.stringify(row)).toSorted();

/**
 * Asserts that the warehouse has the events of a project with their effects, and what belongs to no event, as
 * the database has them. @returns the number of events
 */
export const assertLoaded = async (
  { transact }: { transact: Transact },
  warehouse: Warehouse,
  projectId: string,
): Promise<number> => {
  const read = (query: RawBuilder<Row>): Promise<Row[]> =>
    transact(async ({ db }) => (await query.execute(db)).rows);
  const stored = await read(sql<Row>`
    select e.id::text as id, e.event_type as type, e.external_user_id as "user", p.id::text as player,
      (extract(epoch from e.occurred_at) * 1000)::bigint::text as at,
      (extract(epoch from e.received_at) * 1000)::bigint::text as received, e.idempotency_key as key,
      e.properties, coalesce(r.status, 'PROCESSED') as status, r.error
    from tracked_events e
    left join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
    left join event_results r on r.project_id = e.project_id and r.event_id = e.id
    where e.project_id = ${projectId}::uuid`);
  const loaded = await warehouse.ask(`
    select "eventId" as id, "eventType" as type, "externalUserId" as user, "playerId" as player,
      epoch_ms("occurredAt")::varchar as at, epoch_ms("receivedAt")::varchar as received,
      "idempotencyKey" as key, "properties" as properties, "status" as status, "error" as error
    from events where "projectId" = '${projectId}'`);
  assert.deepEqual(
    byText(loaded.map((row) => ({ ...row, properties: JSON.parse(String(row["properties"])) as unknown }))),
    byText(stored),
  );
  await assertEffects(read, warehouse, projectId);
  await assertGiven(read, warehouse, projectId);
  return stored.length;
};

type Read = (query: RawBuilder<Row>) => Promise<Row[]>;

const assertEffects = async (read: Read, warehouse: Warehouse, projectId: string): Promise<void> => {
  const lists = await warehouse.ask(`
    select "eventId" as id, "effects" as effects, "ledger" as ledger from events
    where "projectId" = '${projectId}'`);
  const of = (name: string): Row[] =>
    lists.flatMap((row) =>
      (JSON.parse(String(row[name])) as Row[]).map((one) => ({ event: row["id"], ...one })),
    );
  const told = await read(sql<Row>`
    select event_id::text as event, id::text, type, player_id::text as player, data from outbox
    where project_id = ${projectId}::uuid and player_seq is not null and event_id in (
      select id from tracked_events where project_id = ${projectId}::uuid)`);
  assert.deepEqual(
    byText(
      of("effects").map(({ event, id, type, playerId: player, data }) => ({ event, id, type, player, data })),
    ),
    byText(told),
  );
  const lines = await read(sql<Row>`
    select event_id::text as event, player_id::text as player, seq::int, asset, currency_key as currency,
      amount::float8, balance_after::float8 as after, cause->>'ruleKey' as rule
    from ledger_entries where project_id = ${projectId}::uuid and event_id in (
      select id from tracked_events where project_id = ${projectId}::uuid)`);
  assert.deepEqual(
    byText(
      of("ledger").map((one) => ({
        event: one["event"],
        player: one["playerId"],
        seq: one["seq"],
        asset: one["asset"],
        currency: one["currency"],
        amount: one["amount"],
        after: one["balanceAfter"],
        rule: one["ruleKey"],
      })),
    ),
    byText(lines),
  );
};

const assertGiven = async (read: Read, warehouse: Warehouse, projectId: string): Promise<void> => {
  const lines = await read(sql<Row>`
    select id::text, player_id::text as player, seq::text, asset, currency_key as currency, amount::text,
      balance_after::text as after, cause->>'kind' as kind, cause->>'refKey' as ref, reverses::text,
      (extract(epoch from created_at) * 1000)::bigint::text as at
    from ledger_entries where project_id = ${projectId}::uuid and event_id is null`);
  const loaded = await warehouse.ask(`
    select "lineId" as id, "playerId" as player, "seq"::varchar as seq, "asset" as asset,
      "currency" as currency, "amount"::varchar as amount, "balanceAfter"::varchar as after, "kind" as kind,
      "refKey" as ref, "reverses" as reverses, epoch_ms("at")::varchar as at
    from ledger where "projectId" = '${projectId}'`);
  assert.deepEqual(byText(loaded), byText(lines));
  const strays = await read(sql<Row>`
    select id from ledger_entries l where l.project_id = ${projectId}::uuid and l.event_id is not null
      and not exists (
        select from tracked_events e where e.project_id = l.project_id and e.id = l.event_id)`);
  assert.deepEqual(strays, [], "each line belongs to an event that there is, or to none");
  // Files name players as they were.
  const grants = await read(sql<Row>`
    select g.id::text, g.player_id::text as player, g.reward_key as reward, g.quantity::text, g.status,
      g.event_id::text as event, (extract(epoch from g.updated_at) * 1000)::bigint::text as at
    from reward_grants g where g.project_id = ${projectId}::uuid`);
  const given = await warehouse.ask(`
    select "grantId" as id, coalesce(m."targetPlayerId", r."playerId") as player, "rewardKey" as reward,
      "quantity"::varchar as quantity, "status" as status, "eventId" as event,
      epoch_ms("updatedAt")::varchar as at
    from rewards r left join merges m on m."sourcePlayerId" = r."playerId"
    where r."projectId" = '${projectId}'`);
  // A merge of players is no change of a grant.
  const merged = new Set(
    (await warehouse.ask(`select "targetPlayerId" as id from merges`)).map(({ id }) => id),
  );
  const comparable = (rows: readonly Row[]): string[] =>
    byText(rows.map((row) => (merged.has(row["player"]) ? { ...row, at: "" } : row)));
  assert.deepEqual(comparable(given), comparable(grants));
};
