import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { aTenant } from "../app/app.ts";
import { eventually } from "../eventually.ts";
import { clientOf, must } from "../http/client.ts";
import type { OwnServices } from "../processes/own-services.ts";
import type { Random } from "../seed.ts";
import { freePort, kill, startProcess } from "../processes/process.ts";

const KILLS = 8;
const BATCHES = 40;
const EACH = 2;

/** Who plays while the worker is killed, and how many events `done` each of them sends. */
export const PLAYERS = 12;
export const EVENTS = BATCHES * EACH;
/** How often what they play is published anew. */
export const PUBLISHED_ANEW = BATCHES / 10;

/** A web process with a tenant, and a worker that is killed while players send events. */
export const startKilledWorker = async ({ services, numberOf }: OwnServices, random: Random) => {
  const env = { ...services.env, PORT: String(await freePort()) };
  const web = await startProcess(["serve"], { ...env, ROLES: "web" });
  let worker = await startProcess(["worker"], env);
  const api = clientOf(`http://127.0.0.1:${env.PORT}`);
  const { key } = await aTenant(api);
  const post = (path: string, body: unknown = {}) => api.post(`/api/v1${path}`, body, { key });
  const count = (what: ReturnType<typeof sql>) =>
    numberOf(sql<{ n: string }>`select count(*) as n from ${what}`);
  const send = async (goal: string): Promise<void> => {
    for (let batch = 0; batch < BATCHES; batch++) {
      const events = Array.from({ length: PLAYERS * EACH }, (_, i) => ({
        externalUserId: `player-${i % PLAYERS}`,
        eventType: "done",
        idempotencyKey: `${batch}-${i}`,
      }));
      for (let times = 0; times < 2; times++) must(await post("/events/batch", { events }), 200);
      if (batch % 10 === 5) must(await post(`${goal}/publish`), 200);
      await delay(50);
    }
  };
  return {
    post,
    get: async (path: string) => (await api.get(`/api/v1${path}`, { key })).body,
    /** Rows of a table, or of one with a condition. */
    count,
    /** Sends all events, each batch twice, and publishes `goal` now and then; waits until nothing waits. */
    playUnderKills: async (goal: string): Promise<void> => {
      const sending = send(goal);
      for (let kills = 0; kills < KILLS; kills++) {
        await delay(100 + random.next() * 400);
        await kill(worker);
        worker = await startProcess(["worker"], env);
      }
      await sending;
      await eventually(async () => (await count(sql`event_q`)) + (await count(sql`event_due`)) === 0, {
        timeoutMs: 120_000,
      });
    },
    /** Asserts that both processes end well. */
    stop: async (): Promise<void> => {
      for (const { child } of [web, worker]) child.kill("SIGTERM");
      assert.deepEqual(await Promise.all([web.ended, worker.ended]), [0, 0]);
    },
  };
};
