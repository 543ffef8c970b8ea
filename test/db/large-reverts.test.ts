import { type RawBuilder, sql } from "kysely";
import assert from "node:assert/strict";
import { define, type Domain, processAll } from "../support/domain/domain.ts";
import { CAUSED_ROWS_MAX } from "../../src/domain/revert/read-record.ts";
import { revertEvent } from "../../src/domain/revert/revert-events.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { postgresDomain } from "../support/processes/services.ts";

const write = (domain: Domain, ...statements: RawBuilder<unknown>[]): Promise<void> =>
  domain.transact(async ({ db }) => {
    for (const statement of statements) await statement.execute(db);
  });

const number = (from: number, to: number) => sql`generate_series(${from}::int, ${to}::int) as i`;

/**
 * An event that has reached `others` players through events of their own, each with `lines` lines of a
 * currency, and what was told of them.
 */
const addFarReaching = async (
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

describe("CPU of what changes much at once", () => {
  const { domain } = postgresDomain(2);
  let projectId: string;
  beforeEach(async () => {
    projectId = await domain.addProject();
  });

  const revert = (eventId: string) => (work: Work) =>
    revertEvent(work, projectId, { eventId, reason: "test", onShortfall: "CLAMP", actor: "test" });
  it("is bounded by how much an event may have caused to be taken back", async () => {
    const others = 10;
    const eventId = await addFarReaching(domain, projectId, { others, lines: CAUSED_ROWS_MAX / others + 1 });
    await assert.rejects(domain.transact(revert(eventId)), { reason: "EVENT_TOO_LARGE" });
  });
});
