import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { settlePlayersAdventures } from "../../src/domain/economy/adventures/due.ts";
import { settlePlayersQuests } from "../../src/domain/economy/quests/due.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { assertInvariants } from "../support/domain/invariants.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { twoServers, type TwoServers } from "../support/processes/two-servers.ts";
import { counting } from "../support/quests/quest-game.ts";

const PLAYERS = 24;
const AROUND_MS = 300;
const AHEAD_MS = 1_500;

describe("claims at the end of their time, over two processes", function () {
  let two: TwoServers;
  let tenant: Tenant;
  let domain: Domain;
  before(async () => {
    two = await twoServers();
    tenant = await aTenant(two.clients[0]);
    domain = openDomain(two.database);
  });

  const post = (i: number, path: string, body: unknown = {}) =>
    two.clients[i % 2]!.post(`/api/v1${path}`, body, { key: tenant.key });
  const db = () => two.database.em.fork().getKysely();
  const rowsOf = async <T>(query: ReturnType<typeof sql<T>>): Promise<T[]> =>
    (await query.execute(db())).rows;
  const define = async (kind: string, definition: { key: string }): Promise<void> => {
    must(await post(0, `/${kind}`, { name: definition.key, ...definition }), 201);
    must(await post(0, `/${kind}/${definition.key}/publish`), 200);
  };
  const playersWho = async (name: string, eventType: string): Promise<string[]> =>
    Promise.all(
      Array.from({ length: PLAYERS }, async (_, i) => {
        const externalUserId = `${name}-${i}`;
        must(await post(i, "/events?wait=true", { externalUserId, eventType }), 200);
        return (await two.clients[0].get(`/api/v1/players/ext:${externalUserId}`, { key: tenant.key })).body
          .id;
      }),
    );

  type Settle = typeof settlePlayersQuests;

  /** Claims for each player at about the time at which it ends, while the sweep settles them. */
  const claimAround = async (
    playerIds: readonly string[],
    { path, endMs, settle }: { path: string; endMs: number; settle: Settle },
  ): Promise<number[]> => {
    const sweep = () =>
      domain.transact((work) => settle(work, { projectId: tenant.projectId, playerIds: [...playerIds] }));
    let isOver = false;
    const sweeping = (async () => {
      while (!isOver) await sweep();
    })();
    const statuses = await Promise.all(
      playerIds.map(async (id, i) => {
        const atMs = endMs - AROUND_MS + (2 * AROUND_MS * i) / playerIds.length;
        await delay(Math.max(0, atMs - Date.now()));
        return (await post(i, `/players/${id}/${path}/claim`)).status;
      }),
    );
    isOver = true;
    await sweeping;
    await eventually(async () => {
      await sweep();
      return Date.now() > endMs;
    });
    await sweep();
    return statuses;
  };

  type Stands = { id: string; state: string; xp: string };

  const assertOneOf = (statuses: readonly number[], ids: readonly string[], stands: readonly Stands[]) => {
    const byId = new Map(stands.map((one) => [one.id, one]));
    for (const [i, id] of ids.entries()) {
      const { state, xp } = byId.get(id)!;
      const isPaid = statuses[i] === 200;
      assert.deepEqual(
        [statuses[i], state, Number(xp)],
        isPaid ? [200, "CLAIMED", 100] : [409, "EXPIRED", 0],
        `player ${i}`,
      );
    }
  };

  it("either grant the rewards of a quest or come too late, never both", async () => {
    await define("quests", {
      key: "window",
      steps: [counting("one", "window.ready", 1)],
      claim: "MANUAL",
      claimWindowSeconds: 3_600,
      rewards: { xp: 100 },
    } as never);
    const ids = await playersWho("quester", "window.ready");
    const endMs = Date.now() + AHEAD_MS;
    const end = new Date(endMs).toISOString();
    await sql`update player_quests set claim_until = ${end}::timestamptz, due_at = ${end}::timestamptz
      where project_id = ${tenant.projectId} and quest_key = 'window'`.execute(db());
    const how = { path: "quests/window", endMs, settle: settlePlayersQuests };
    const statuses = await claimAround(ids, how);
    const stands = await rowsOf(sql<Stands>`
      select p.id, q.state, p.xp from players p join player_quests q on q.project_id = p.project_id
        and q.player_id = p.id where p.project_id = ${tenant.projectId} and q.quest_key = 'window'`);
    assertOneOf(statuses, ids, stands);
    const [told] = await rowsOf(sql<{ n: string }>`
      select count(*) as n from outbox where project_id = ${tenant.projectId} and type = 'quest.expired'`);
    assert.equal(Number(told!.n), statuses.filter((status) => status !== 200).length);
  });

  it("either grant the rewards of an adventure or come too late, never both", async () => {
    await define("quests", { key: "act", steps: [counting("one", "act.done", 1)] } as never);
    const short = {
      key: "short",
      startsAt: "2026-01-01T00:00:00Z",
      endsAt: "2199-01-01T00:00:00Z",
      claimUntil: "2199-01-01T00:00:00Z",
      items: [{ questKey: "act", order: 1 }],
      claim: "MANUAL",
      rewards: { xp: 100 },
    };
    await define("adventures", short);
    const ids = await playersWho("adventurer", "act.done");
    const endMs = Date.now() + 4 * AHEAD_MS;
    const end = new Date(endMs).toISOString();
    const sooner = { endsAt: end, claimUntil: end };
    must(await two.clients[0].patch("/api/v1/adventures/short", sooner, { key: tenant.key }), 200);
    must(await post(0, "/adventures/short/publish"), 200);
    await eventually(async () => {
      const late = await rowsOf(sql`select 1 from player_adventures
        where project_id = ${tenant.projectId} and due_at > ${end}::timestamptz`);
      return late.length === 0;
    });
    const how = { path: "adventures/short", endMs, settle: settlePlayersAdventures };
    const statuses = await claimAround(ids, how);
    const stands = await rowsOf(sql<Stands>`
      select p.id, a.state, p.xp from players p join player_adventures a on a.project_id = p.project_id
        and a.player_id = p.id where p.project_id = ${tenant.projectId} and a.adventure_key = 'short'`);
    assertOneOf(statuses, ids, stands);
    await eventually(async () => (await rowsOf(sql`select 1 from outbox_q limit 1`)).length === 0);
    await assertInvariants(two.database.em);
  });
});
