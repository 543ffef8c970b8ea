import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { assertInvariants } from "../support/domain/invariants.ts";
import { eventually } from "../support/eventually.ts";
import { type Client, must } from "../support/http/client.ts";
import { twoServers, type TwoServers } from "../support/processes/two-servers.ts";
import { counting } from "../support/quests/quest-game.ts";

const PLAYERS = 50;
const PLACES = 10;
const CLAIMS = 30;
const ROUNDS = 8;
const BATCH = 4;

describe("quests over two processes", function () {
  let two: TwoServers;
  let tenant: Tenant;
  before(async () => {
    two = await twoServers();
    tenant = await aTenant(two.clients[0]);
  });

  const client = (i: number): Client => two.clients[i % 2]!;
  const post = (i: number, path: string, body: unknown = {}) =>
    client(i).post(`/api/v1${path}`, body, { key: tenant.key });
  const get = async (path: string) => must(await client(0).get(`/api/v1${path}`, { key: tenant.key }), 200);
  const db = () => two.database.em.fork().getKysely();
  const publish = async (quest: { key: string }): Promise<void> => {
    must(await post(0, "/quests", { name: quest.key, ...quest }), 201);
    must(await post(0, `/quests/${quest.key}/publish`), 200);
  };
  const addPlayers = (name: string, n: number) =>
    Promise.all(
      Array.from({ length: n }, async (_, i) =>
        must(await post(i, "/players", { externalUserId: `${name}-${i}` }), 201),
      ),
    );
  const isAtRest = async (): Promise<boolean> => {
    const { rows } = await sql<{ n: string }>`
      select (select count(*) from event_q) + (select count(*) from event_due)
        + (select count(*) from project_jobs where status in ('QUEUED', 'RUNNING')) as n`.execute(db());
    return Number(rows[0]!.n) === 0;
  };
  const startedIn = async (key: string): Promise<number> => {
    const { rows } = await sql<{ n: string }>`
      select count(*) as n from player_quests where quest_key = ${key}`.execute(db());
    return Number(rows[0]!.n);
  };

  it(`let ${PLACES} of ${PLAYERS} players in, who come at once by requests and events`, async () => {
    const steps = [counting("one", "place.taken", 2)];
    await publish({ key: "by-hand", start: { mode: "MANUAL" }, steps, maxParticipants: PLACES } as never);
    await publish({ key: "itself", steps, maxParticipants: PLACES } as never);
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
    await eventually(isAtRest, { timeoutMs: 60_000 });
    assert.deepEqual([await startedIn("by-hand"), await startedIn("itself")], [PLACES, PLACES]);
  });

  it(`pay the rewards of a cycle once, whichever of ${CLAIMS} claims comes first`, async () => {
    await publish({
      key: "claimed",
      steps: [counting("one", "claim.ready", 1)],
      claim: "MANUAL",
      rewards: { xp: 100 },
    } as never);
    await addPlayers("claimer", 1);
    must(await post(0, "/events?wait=true", { externalUserId: "claimer-0", eventType: "claim.ready" }), 200);
    await eventually(isAtRest, { timeoutMs: 60_000 });
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
    await publish({
      key: "merged",
      steps: [counting("one", "merge.ready", 1)],
      claim: "MANUAL",
      rewards: { xp: 5 },
    } as never);
    const pairs = 6;
    const [targets, sources] = [await addPlayers("target", pairs), await addPlayers("source", pairs)];
    for (const { externalUserId } of [...targets, ...sources])
      must(await post(0, "/events", { externalUserId, eventType: "merge.ready" }), 200);
    await eventually(isAtRest, { timeoutMs: 60_000 });
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

  it("come to what is left when events are reverted while others arrive", async () => {
    await publish({
      key: "thrice",
      steps: [counting("three", "thrice.done", 3)],
      repeat: { mode: "UNLIMITED" },
      rewards: { xp: 5 },
    } as never);
    const players = await addPlayers("reverter", 6);
    const play = async (user: string, n: number): Promise<void> => {
      for (let round = 0; round < ROUNDS; round++) {
        const events = Array.from({ length: BATCH }, () => ({
          externalUserId: user,
          eventType: "thrice.done",
        }));
        const { results } = must(await post(n + round, "/events/batch", { events }), 200);
        const { eventId } = results[round % BATCH] as { eventId: string };
        const jobs = await Promise.all(
          [0, 1].map((i) => post(i, `/events/${eventId}/revert`, { reason: "test" })),
        );
        for (const job of jobs) must(job, 200);
      }
    };
    await Promise.all(players.map(({ externalUserId }, n) => play(externalUserId, n)));
    await eventually(isAtRest, { timeoutMs: 120_000 });
    const { rows: jobs } = await sql<{ status: string; left: string }>`
      select status, result->>'left' as left from project_jobs where kind = 'EVENT_REVERT'`.execute(db());
    for (const { status, left } of jobs) {
      // A level that was reached stays.
      const quests = (JSON.parse(left) as string[]).filter((what) => !what.startsWith("level "));
      assert.deepEqual([status, quests], ["SUCCEEDED", []]);
    }
    const stands = ROUNDS * (BATCH - 1);
    for (const { id } of players) {
      assert.equal((await get(`/players/${id}`)).xp, Math.floor(stands / 3) * 5);
      const { rows } = await sql<{ n: string }>`
        select count(*) as n from player_quests
        where quest_key = 'thrice' and player_id = ${id} and state = 'CLAIMED'`.execute(db());
      assert.equal(Number(rows[0]!.n), Math.floor(stands / 3));
    }
    await assertInvariants(two.database.em);
  });
});
