import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { type Client, must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { assertInvariants } from "../support/domain/invariants.ts";
import { twoServers, type TwoServers } from "../support/processes/two-servers.ts";

const PLAYERS = 8;
const BATCHES = 30;
const BATCH = 10;
/** Every so many-th event is taken back. */
const REVERT_EVERY = 6;

describe("events taken back while others arrive, over two processes", () => {
  let two: TwoServers;
  let tenant: Tenant;
  before(async () => {
    two = await twoServers();
    tenant = await aTenant(two.clients[0]);
  });

  const client = (i: number): Client => two.clients[i % 2]!;
  const post = (i: number, path: string, body: unknown) =>
    client(i).post(`/api/v1${path}`, body, { key: tenant.key });
  const get = async (path: string) => (await client(0).get(`/api/v1${path}`, { key: tenant.key })).body;
  const name = (i: number): string => `player-${i % PLAYERS}`;
  const db = () => two.database.em.fork().getKysely();

  it("leave exactly what the others have brought about, for senders and for those they reached", async () => {
    must(await post(0, "/currencies", { key: "coins", name: "Coins" }), 201);
    const friend = { externalUserId: { $ref: "event.properties.friend" } };
    const metric = { eventTypes: ["won"], aggregate: "count" };
    const rule = {
      key: "won",
      name: "Won",
      triggers: [{ kind: "EVENT", eventTypes: ["won"] }],
      conditions: { all: [{ type: "event_aggregate", metric, op: "gte", value: 1 }] },
      actions: [
        { type: "grant_xp", amount: 10 },
        { type: "adjust_currency", currencyKey: "coins", amount: 5 },
        { type: "grant_xp", amount: 1, target: friend },
      ],
    };
    must(await post(0, "/rules", rule), 201);
    must(await post(0, "/rules/won/publish", {}), 200);
    for (let i = 0; i < PLAYERS; i++) must(await post(i, "/players", { externalUserId: name(i) }), 201);

    const sent: { id: string; from: number; to: number }[] = [];
    const jobs: string[] = [];
    const revert = async (i: number, id: string): Promise<void> => {
      // Both processes are asked at once: one of the jobs does it.
      const answers = await Promise.all(
        [0, 1].map((n) => post(i + n, `/events/${id}/revert`, { reason: "test" })),
      );
      for (const answer of answers) jobs.push(must(answer, 200).id as string);
    };
    const round = async (i: number): Promise<void> => {
      const events = Array.from({ length: BATCH }, (_, n) => {
        const [from, to] = [i + n, i + n + 1 + (n % 3)];
        const properties = { friend: name(to) };
        return { externalUserId: name(from), eventType: "won", properties };
      });
      const { results } = must(await post(i, "/events/batch", { events }), 200);
      for (const [n, { eventId }] of (results as { eventId: string }[]).entries())
        sent.push({ id: eventId, from: i + n, to: i + n + 1 + (n % 3) });
      const chosen = (results as { eventId: string }[]).filter(
        (_, n) => (i * BATCH + n) % REVERT_EVERY === 0,
      );
      await Promise.all(chosen.map(({ eventId }) => revert(i, eventId)));
    };
    for (let i = 0; i < BATCHES; i += 3) await Promise.all([round(i), round(i + 1), round(i + 2)]);

    const isAtRest = async (): Promise<boolean> => {
      const { rows } = await sql<{ n: string }>`
        select (select count(*) from event_q) + (select count(*) from event_due)
          + (select count(*) from project_jobs where status in ('QUEUED', 'RUNNING')) as n`.execute(db());
      return Number(rows[0]!.n) === 0;
    };
    await eventually(isAtRest, { timeoutMs: 60_000 });
    const { rows: failed } = await sql<{ error: string }>`
      select error from project_jobs where status <> 'SUCCEEDED'`.execute(db());
    assert.deepEqual(failed, []);

    const { rows } = await sql<{ id: string }>`
      select e.id from tracked_events e join event_results r
        on r.project_id = e.project_id and r.event_id = e.id and r.status = 'REVERTED'
      where e.event_type = 'won'`.execute(db());
    const gone = new Set(rows.map(({ id }) => id));
    assert.equal(gone.size, (BATCHES * BATCH) / REVERT_EVERY);
    const { rows: told } = await sql<{ n: string; ids: string }>`
      select count(*) as n, count(distinct data->>'eventId') as ids from outbox
      where type = 'event.reverted' and project_id = ${tenant.projectId}`.execute(db());
    assert.deepEqual([Number(told[0]!.n), Number(told[0]!.ids)], [gone.size, gone.size]);

    const stands = sent.filter(({ id }) => !gone.has(id));
    for (let i = 0; i < PLAYERS; i++) {
      const own = stands.filter(({ from }) => name(from) === name(i)).length;
      const reached = stands.filter(({ to }) => name(to) === name(i)).length;
      const player = await get(`/players/ext:${name(i)}`);
      assert.equal(player.xp, own * 10 + reached, name(i));
      const { data } = await get(`/players/ext:${name(i)}/balances`);
      assert.equal(data[0].balance, own * 5, name(i));
      const { rows: counters } = await sql<{ n: string }>`
        select v.value as n from player_states s, jsonb_each_text(s.doc->'c') v
        where s.player_id = ${player.id}`.execute(db());
      assert.deepEqual(
        counters.map(({ n }) => Number(n)),
        [own],
        name(i),
      );
    }
    await assertInvariants(two.database.em);
  });
});
