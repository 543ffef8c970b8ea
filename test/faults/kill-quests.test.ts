import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aTenant } from "../support/app/app.ts";
import { assertInvariants } from "../support/domain/invariants.ts";
import { eventually } from "../support/eventually.ts";
import { clientOf, must } from "../support/http/client.ts";
import { freePort, kill, startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { counting } from "../support/quests/quest-game.ts";

const KILLS = 8;
const PLAYERS = 12;
const BATCHES = 40;
const EACH = 2;

describe("kill -9 of a worker while players do quests", function () {
  this.timeout(300_000);
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;

  before(async () => {
    dir = await temporaryDir();
    services = await startServices(dir.path);
    database = await openPostgres(services.databaseUrl, 2);
  });
  after(async () => {
    await database?.close();
    await services?.remove();
    await dir?.remove();
  });

  const count = async (what: ReturnType<typeof sql>): Promise<number> => {
    const { rows } = await sql<{ n: string }>`select count(*) as n from ${what}`.execute(
      database.em.fork().getKysely(),
    );
    return Number(rows[0]!.n);
  };

  it("gives the rewards of each cycle once, of events that come twice, while versions change", async () => {
    const env = { ...services.env, PORT: String(await freePort()) };
    const web = await startProcess(["serve"], { ...env, ROLES: "web" });
    let worker = await startProcess(["worker"], env);
    const api = clientOf(`http://127.0.0.1:${env.PORT}`);
    const { key } = await aTenant(api);
    const post = (path: string, body: unknown = {}) => api.post(`/api/v1${path}`, body, { key });
    const quest = {
      key: "thrice",
      name: "Thrice",
      steps: [counting("three", "done", 3, { rewards: { xp: 1 } })],
      repeat: { mode: "UNLIMITED" },
      onVersionChange: "CARRY_OVER",
      rewards: { xp: 2 },
    };
    must(await post("/quests", quest), 201);
    must(await post("/quests/thrice/publish"), 200);

    const send = async (): Promise<void> => {
      for (let batch = 0; batch < BATCHES; batch++) {
        const events = Array.from({ length: PLAYERS * EACH }, (_, i) => ({
          externalUserId: `player-${i % PLAYERS}`,
          eventType: "done",
          idempotencyKey: `${batch}-${i}`,
        }));
        for (let times = 0; times < 2; times++) must(await post("/events/batch", { events }), 200);
        if (batch % 10 === 5) must(await post("/quests/thrice/publish"), 200);
        await delay(50);
      }
    };
    const sending = send();
    for (let kills = 0; kills < KILLS; kills++) {
      await delay(100 + Math.random() * 400);
      await kill(worker);
      worker = await startProcess(["worker"], env);
    }
    await sending;
    await eventually(async () => (await count(sql`event_q`)) + (await count(sql`event_due`)) === 0, {
      timeoutMs: 120_000,
    });
    const cycles = Math.floor((BATCHES * EACH) / 3);
    for (let i = 0; i < PLAYERS; i++) {
      const { body } = await api.get(`/api/v1/players/ext:player-${i}`, { key });
      assert.equal(body.xp, cycles * 3, `player ${i}`);
    }
    assert.equal(await count(sql`tracked_events`), PLAYERS * EACH * BATCHES);
    assert.equal(await count(sql`player_quests where state = 'CLAIMED'`), PLAYERS * cycles);
    assert.equal(
      await count(sql`player_quests where state = 'IN_PROGRESS'`),
      (BATCHES * EACH) % 3 === 0 ? 0 : PLAYERS,
    );
    assert.equal(await count(sql`definition_versions`), 1 + BATCHES / 10);
    await assertInvariants(database.em);
    for (const { child } of [web, worker]) child.kill("SIGTERM");
    assert.deepEqual(await Promise.all([web.ended, worker.ended]), [0, 0]);
  });
});
