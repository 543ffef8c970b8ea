import { type RawBuilder, sql } from "kysely";
import type { Domain } from "../domain/domain.ts";
import { define, processAll } from "../domain/rule-projects.ts";

const write = (domain: Domain, ...statements: RawBuilder<unknown>[]): Promise<void> =>
  domain.transact(async ({ db }) => {
    for (const statement of statements) await statement.execute(db);
  });

const number = (from: number, to: number) => sql`generate_series(${from}::int, ${to}::int) as i`;

/**
 * An event that has reached `others` players through events of their own, each with `lines` lines of a
 * currency, and what was told of them.
 */
export const addFarReaching = async (
  domain: Domain,
  projectId: string,
  { others, lines }: { others: number; lines: number },
): Promise<string> => {
  await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
  const [eventId] = await domain.track(projectId, [{ user: "ada" }]);
  const users = Array.from({ length: others }, (_, i) => ({ user: `player-${i}` }));
  await domain.track(projectId, users);
  await processAll(domain);
  const ofAll = sql`from tracked_events e
    join players p on p.project_id = e.project_id and p.external_user_id = e.external_user_id
    cross join ${number(1, lines)} where e.project_id = ${projectId} and e.id <> ${eventId!}`;
  await write(
    domain,
    sql`update tracked_events set event_type = 'system.grant',
        properties = jsonb_build_object('rootEventId', ${eventId!}::text)
      where project_id = ${projectId} and id <> ${eventId!}`,
    sql`insert into ledger_entries (project_id, player_id, seq, id, asset, currency_key, amount,
        balance_after, reason, idempotency_key, cause, event_id, hash, created_at)
      select e.project_id, p.id, 100 + i, gen_random_uuid(), 'CURRENCY', 'coins', 1, i, 'rule', 'k' || i,
        '{"kind": "RULE"}', e.id, 'hash', now() ${ofAll}`,
    sql`insert into outbox (project_id, id, type, player_id, player_seq, event_id, data, created_at)
      select e.project_id, gen_random_uuid(), 'player.currency_granted', p.id, 1000 + i, e.id,
        '{"currencyKey": "coins"}', now() ${ofAll}`,
    sql`insert into player_balances (project_id, player_id, currency_key, balance, updated_at)
      select project_id, id, 'coins', ${lines}::int, now() from players where project_id = ${projectId}`,
    sql`update players set seq = 1000000, ledger_seq = 1000000 where project_id = ${projectId}`,
    sql`analyze`,
  );
  return eventId!;
};
