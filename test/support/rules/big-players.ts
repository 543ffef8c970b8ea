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

/** Two players, each with as many badges and lots of a currency. @returns their ids */
export const addRichPair = async (
  domain: Domain,
  projectId: string,
  { badges, lots }: { badges: number; lots: number },
): Promise<[string, string]> => {
  await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
  await define(domain, projectId, "badge", { key: "b1", name: "Badge" });
  const ids = [await domain.addPlayer(projectId, "ada"), await domain.addPlayer(projectId, "bob")];
  const ofAll = sql`from players cross join ${number(1, badges)} where project_id = ${projectId}`;
  await write(
    domain,
    sql`insert into definitions (id, project_id, kind, key, name, definition, status, created_by, created_at,
        updated_at)
      select gen_random_uuid(), project_id, kind, 'b' || i, name,
        definition || jsonb_build_object('key', 'b' || i), status, 'test', now(), now()
      from definitions cross join ${number(2, badges)} where project_id = ${projectId} and kind = 'badge'`,
    sql`insert into player_badges (project_id, player_id, badge_key, tier, times_awarded, updated_at)
      select project_id, id, 'b' || i, case when external_user_id = 'bob' then 1 else 0 end, 1, now()
      ${ofAll}`,
    sql`insert into player_balances (project_id, player_id, currency_key, balance, updated_at)
      select project_id, id, 'coins', 1000000, now() from players where project_id = ${projectId}`,
    sql`insert into currency_lots (project_id, player_id, id, currency_key, remaining, expires_at)
      select project_id, id, gen_random_uuid(), 'coins', 1,
        now() + (2 * i + case when external_user_id = 'bob' then 1 else 0 end) * interval '1 hour'
      from players cross join ${number(1, lots)} where project_id = ${projectId}`,
    sql`analyze`,
  );
  return ids as [string, string];
};

/** Players, and dynamic segments of as many conditions, each of which reads an attribute of its own. */
export const addDearSegments = async (
  domain: Domain,
  projectId: string,
  { players, segments, conditions }: { players: number; segments: number; conditions: number },
): Promise<void> => {
  const values = Array.from({ length: 40 }, (_, i) => i);
  const documents = Array.from({ length: segments }, (_, i) => ({
    key: `s${i}`,
    name: "Segment",
    kind: "DYNAMIC",
    definition: {
      any: Array.from({ length: conditions }, (_unused, j) => {
        return { type: "player_property", field: `attributes.a${i}x${j}`, op: "in", value: values };
      }),
    },
  }));
  await write(
    domain,
    sql`insert into definitions (id, project_id, kind, key, name, definition, status, created_by, created_at,
        updated_at)
      select gen_random_uuid(), ${projectId}::uuid, 'segment', d->>'key', 'Segment', d, 'ACTIVE', 'test',
        now(), now()
      from json_array_elements(${JSON.stringify(documents)}::json) as d`,
    sql`insert into players (project_id, id, external_user_id, created_at, updated_at)
      select ${projectId}::uuid, gen_random_uuid(), 'player-' || i, now(), now() from ${number(1, players)}`,
  );
};
