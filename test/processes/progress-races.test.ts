import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { settlePlayersAdventures } from "../../src/domain/economy/adventures/change-adventures.ts";
import { settlePlayersQuests } from "../../src/domain/economy/quests/due.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { assertInvariants } from "../support/domain/crashing.ts";
import { eventually } from "../support/eventually.ts";
import { type Answer, must } from "../support/http/client.ts";
import { twoServers, type TwoServers } from "../support/processes/two-servers.ts";
import { counting } from "../support/quests/quest-game.ts";
import { pluck } from "../support/pluck.ts";

const PLAYERS = 50;
const PLACES = 10;
const CLAIMS = 30;
const AROUND_MS = 300;
const AHEAD_MS = 1_500;
const SENDERS = 8;
const BATCHES = 30;
const BATCH = 10;
/** Every so many-th event is taken back. */
const REVERT_EVERY = 6;

describe("players over two processes", () => {
  let two: TwoServers;
  let tenant: Tenant;
  let domain: Domain;
  before(async () => {
    two = await twoServers();
    domain = openDomain(two.database);
  });
  beforeEach(async () => {
    tenant = await aTenant(two.clients[0]);
  });

  /** As clients are told to, comes again where a request has waited too long for the others. */
  const post = (i: number, path: string, body: unknown = {}): Promise<Answer> =>
    eventually(async () => {
      const answer = await two.clients[i % 2]!.post(`/api/v1${path}`, body, { key: tenant.key });
      return answer.status === 503 ? undefined : answer;
    });
  const get = async (path: string) =>
    must(await two.clients[0].get(`/api/v1${path}`, { key: tenant.key }), 200);
  const rowsOf = async <T>(query: ReturnType<typeof sql<T>>): Promise<T[]> =>
    (await query.execute(two.database.em.fork().getKysely())).rows;
  const define = async (kind: string, definition: { key: string }): Promise<void> => {
    must(await post(0, `/${kind}`, { name: definition.key, ...definition }), 201);
    must(await post(0, `/${kind}/${definition.key}/publish`), 200);
  };
  const addPlayers = (name: string, n: number) =>
    Promise.all(
      Array.from({ length: n }, async (_, i) =>
        must(await post(i, "/players", { externalUserId: `${name}-${i}` }), 201),
      ),
    );
  const isAtRest = async (): Promise<void> => {
    await eventually(
      async () => {
        const [left] = await rowsOf(sql<{ n: number }>`
          select (select count(*) from event_q) + (select count(*) from event_due)
            + (select count(*) from project_jobs where status in ('QUEUED', 'RUNNING')) as n`);
        return left!.n === 0;
      },
      { timeoutMs: 120_000 },
    );
  };

  it(`let ${PLACES} of ${PLAYERS} players in, who come at once by requests and events`, async () => {
    const steps = [counting("one", "place.taken", 2)];
    await define("quests", {
      key: "by-hand",
      start: { mode: "MANUAL" },
      steps,
      maxParticipants: PLACES,
    } as never);
    await define("quests", { key: "itself", steps, maxParticipants: PLACES } as never);
    await addPlayers("crowd", PLAYERS);
    const answers = await Promise.all(
      Array.from({ length: PLAYERS }, (_, i) => post(i, `/players/ext:crowd-${i}/quests/by-hand/start`)),
    );
    const refused = answers.filter(({ status }) => status !== 200);
    assert.equal(answers.length - refused.length, PLACES);
    for (const { status, body } of refused)
      assert.deepEqual(
        [status, (body as { error: { reason: string } }).error.reason],
        [409, "LIMIT_REACHED"],
      );
    await Promise.all(
      Array.from({ length: PLAYERS }, (_, i) =>
        post(i, "/events", { externalUserId: `crowd-${i}`, eventType: "place.taken" }),
      ),
    );
    await isAtRest();
    const started = await rowsOf(sql<{ n: number }>`
      select count(*) as n from player_quests where project_id = ${tenant.projectId} group by quest_key`);
    assert.deepEqual(pluck(started, "n"), [PLACES, PLACES]);
  });

  it(`pay the rewards of a cycle once, whichever of ${CLAIMS} claims comes first`, async () => {
    await define("quests", {
      key: "claimed",
      steps: [counting("one", "claim.ready", 1)],
      claim: "MANUAL",
      rewards: { xp: 100 },
    } as never);
    await addPlayers("claimer", 1);
    must(await post(0, "/events?wait=true", { externalUserId: "claimer-0", eventType: "claim.ready" }), 200);
    await isAtRest();
    const answers = await Promise.all(
      Array.from({ length: CLAIMS }, (_, i) => post(i, "/players/ext:claimer-0/quests/claimed/claim")),
    );
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    for (const { status, body } of answers.filter((answer) => answer.status !== 200))
      assert.deepEqual(
        [status, (body as { error: { reason: string } }).error.reason],
        [409, "ALREADY_CLAIMED"],
      );
    assert.equal((await get("/players/ext:claimer-0")).xp, 100);
  });

  it("pay for each claim that was answered, and for no other, while two players become one", async () => {
    await define("quests", {
      key: "merged",
      steps: [counting("one", "merge.ready", 1)],
      claim: "MANUAL",
      rewards: { xp: 5 },
    } as never);
    const pairs = 6;
    const [targets, sources] = [await addPlayers("target", pairs), await addPlayers("source", pairs)];
    for (const { externalUserId } of [...targets, ...sources])
      must(await post(0, "/events", { externalUserId, eventType: "merge.ready" }), 200);
    await isAtRest();
    await Promise.all(
      targets.map(async ({ id: target }, n) => {
        const { id: source } = sources[n]!;
        const claims = Array.from({ length: 6 }, (_, i) =>
          post(i, `/players/${i % 3 === 0 ? target : source}/quests/merged/claim`),
        );
        const [merged, ...answers] = await Promise.all([
          post(n, `/players/${target}/merge`, { sourcePlayerId: source }),
          ...claims,
        ]);
        must(merged, 200);
        const paid = answers.filter(({ status }) => status === 200).length;
        assert.ok(paid >= 1 && paid <= 2, `${paid} claims`);
        assert.equal((await get(`/players/${target}`)).xp, paid * 5);
        assert.equal((await post(n, `/players/${target}/quests/merged/claim`)).status, 409);
      }),
    );
  });

  describe("at the end of the time to claim,", () => {
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

    type Stands = { id: string; state: string; xp: number };

    const assertOneOf = (statuses: readonly number[], ids: readonly string[], stands: readonly Stands[]) => {
      const byId = new Map(stands.map((one) => [one.id, one]));
      for (const [i, id] of ids.entries()) {
        const { state, xp } = byId.get(id)!;
        const isPaid = statuses[i] === 200;
        assert.deepEqual(
          [statuses[i], state, xp],
          isPaid ? [200, "CLAIMED", 100] : [409, "EXPIRED", 0],
          `player ${i}`,
        );
      }
    };

    const playersWho = async (name: string, eventType: string): Promise<string[]> => {
      const players = await addPlayers(name, PLAYERS / 2);
      for (const [i, { externalUserId }] of players.entries())
        must(await post(i, "/events?wait=true", { externalUserId, eventType }), 200);
      return players.map(({ id }) => id);
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
      await rowsOf(sql`
        update player_quests set claim_until = ${end}::timestamptz, due_at = ${end}::timestamptz
        where project_id = ${tenant.projectId} and quest_key = 'window'`);
      const how = { path: "quests/window", endMs, settle: settlePlayersQuests };
      const statuses = await claimAround(ids, how);
      const stands = await rowsOf(sql<Stands>`
        select p.id, q.state, p.xp from players p join player_quests q on q.project_id = p.project_id
          and q.player_id = p.id where p.project_id = ${tenant.projectId} and q.quest_key = 'window'`);
      assertOneOf(statuses, ids, stands);
      const [told] = await rowsOf(sql<{ n: number }>`
        select count(*) as n from outbox where project_id = ${tenant.projectId} and type = 'quest.expired'`);
      assert.equal(told!.n, statuses.filter((status) => status !== 200).length);
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

  it("keep exactly what is left where events are taken back while others arrive", async () => {
    const nameOf = (i: number): string => `player-${i % SENDERS}`;
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
    for (let i = 0; i < SENDERS; i++) must(await post(i, "/players", { externalUserId: nameOf(i) }), 201);

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
        const properties = { friend: nameOf(to) };
        return { externalUserId: nameOf(from), eventType: "won", properties };
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

    await isAtRest();
    const failed = await rowsOf(sql<{ error: string }>`
      select error from project_jobs where project_id = ${tenant.projectId} and status <> 'SUCCEEDED'`);
    assert.deepEqual(failed, []);

    const reverted = await rowsOf(sql<{ id: string }>`
      select e.id from tracked_events e join event_results r
        on r.project_id = e.project_id and r.event_id = e.id and r.status = 'REVERTED'
      where e.project_id = ${tenant.projectId} and e.event_type = 'won'`);
    const gone = new Set(reverted.map(({ id }) => id));
    assert.equal(gone.size, (BATCHES * BATCH) / REVERT_EVERY);
    const told = await rowsOf(sql<{ n: number; ids: string }>`
      select count(*) as n, count(distinct data->>'eventId') as ids from outbox
      where type = 'event.reverted' and project_id = ${tenant.projectId}`);
    assert.deepEqual([told[0]!.n, Number(told[0]!.ids)], [gone.size, gone.size]);

    const stands = sent.filter(({ id }) => !gone.has(id));
    for (let i = 0; i < SENDERS; i++) {
      const own = stands.filter(({ from }) => nameOf(from) === nameOf(i)).length;
      const reached = stands.filter(({ to }) => nameOf(to) === nameOf(i)).length;
      const player = await get(`/players/ext:${nameOf(i)}`);
      assert.equal(player.xp, own * 10 + reached, nameOf(i));
      const { data } = await get(`/players/ext:${nameOf(i)}/balances`);
      assert.equal(data[0].balance, own * 5, nameOf(i));
      const counters = await rowsOf(sql<{ n: string }>`
        select v.value as n from player_states s, jsonb_each_text(s.doc->'c') v
        where s.player_id = ${player.id}`);
      assert.deepEqual(
        counters.map(({ n }) => Number(n)),
        [own],
        nameOf(i),
      );
    }
    await assertInvariants(two.database.em);
  });
});
