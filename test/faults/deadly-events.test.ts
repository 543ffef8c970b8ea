import assert from "node:assert/strict";
import { join } from "node:path";
import { sql } from "kysely";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { type Client, clientOf, must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { fillDataDir, freePort, supervise, temporaryDir } from "../support/processes/process.ts";
import { rulesOf } from "../support/rules/rules-api.ts";
import { ownWeb } from "../support/processes/services.ts";

const DEADLY = "lesson.deadly";
const NEIGHBOURS = 12;
/** Four tries, with the time between them, and as many starts of a process that is busy. */
const OVER_AFTER_MS = 400_000;

const HOOK = new URL("../support/faults/deadly-event.ts", import.meta.url).href;
const deadly = (by: "memory" | "kill") => ({
  NODE_OPTIONS: `--max-old-space-size=192 --import=${HOOK}`,
  DEADLY_TYPE: DEADLY,
  DEADLY_BY: by,
});

type Sent = { neighbours: string[]; deadly: string };

/** Each event of a player gives 1 XP. */
const prepare = async (api: Client): Promise<Tenant> => {
  const tenant = await aTenant(api);
  const triggers = [{ kind: "EVENT", eventTypes: ["lesson.completed", DEADLY] }];
  await rulesOf(api, tenant).publish({ triggers });
  return tenant;
};

/** A deadly event among those of its neighbours, some of them of its own player. */
const send = async (api: Client, { key }: Tenant): Promise<Sent> => {
  const of = (n: number) => (n % 4 === 0 ? "victim" : `neighbour-${n}`);
  const plain = Array.from({ length: NEIGHBOURS }, (_, n) => ({
    externalUserId: of(n),
    eventType: "lesson.completed",
    idempotencyKey: `plain-${n}`,
  }));
  const deadlyOne = { externalUserId: "victim", eventType: DEADLY, idempotencyKey: "deadly" };
  const events = plain.toSpliced(NEIGHBOURS / 2, 0, deadlyOne);
  // The embedded server may die of them before it has answered.
  const results = await eventually(
    async () =>
      must(await api.post("/api/v1/events/batch", { events }, { key }), 200).results as { eventId: string }[],
    { timeoutMs: 60_000, label: "the events are stored" },
  );
  const ids = results.map(({ eventId }) => eventId);
  const [guilty] = ids.splice(NEIGHBOURS / 2, 1);
  return { neighbours: ids, deadly: guilty! };
};

const eventOf = async (api: Client, { key }: Tenant, id: string) =>
  must(await api.get(`/api/v1/events/${id}`, { key }), 200);

/** XP by external id. */
const xpOf = async (api: Client, { key }: Tenant): Promise<Record<string, number>> => {
  const { data } = must(await api.get("/api/v1/players?limit=100", { key }), 200);
  return Object.fromEntries(
    data.map(({ externalUserId, xp }: { externalUserId: string; xp: number }) => [externalUserId, xp]),
  );
};

/** Everything but the deadly event has had its effect once. */
const assertUnharmed = async (api: Client, tenant: Tenant, { neighbours }: Sent): Promise<void> => {
  for (const id of neighbours) assert.equal((await eventOf(api, tenant, id)).status, "PROCESSED");
  const { victim, ...others } = await xpOf(api, tenant);
  assert.equal(victim, NEIGHBOURS / 4);
  assert.deepEqual(Object.values(others), Array(NEIGHBOURS - NEIGHBOURS / 4).fill(1));
};

const assertFailed = async (api: Client, tenant: Tenant, { deadly: id }: Sent): Promise<void> => {
  const { status, error } = await eventOf(api, tenant, id);
  assert.equal(status, "FAILED");
  assert.match(error, /^PROCESS_DIED: /);
};

describe("an event that ends the worker that evaluates it", function () {
  this.timeout(2 * OVER_AFTER_MS);
  const own = ownWeb();
  let api: Client;
  before(() => {
    ({ api } = own);
  });
  afterEach(() => own.worker?.stop());

  /** By themselves, all tries take 71 seconds. */
  const makeDue = () => sql`update event_due set due_at = now() - interval '1 minute'`.execute(own.db());
  const attemptsOf = (ids: readonly string[]): Promise<number> =>
    own.numberOf(sql`
      select count(*) as n from (select event_id, attempts from event_q union all
        select event_id, attempts from event_due) x
      where attempts > 0 and event_id = any(${`{${ids.join(",")}}`}::uuid[])`);

  for (const by of ["memory", "kill"] as const)
    it(`is FAILED after its tries, and everything else goes on: ${by}`, async () => {
      const [tenant, other] = [await prepare(api), await prepare(api)];
      const sent = await send(api, tenant);
      let worker = own.startWorker(deadly(by));
      let others = 0;
      await eventually(
        async () => {
          await makeDue();
          const deaths = worker.deaths();
          // While the worker dies again and again, a tenant beside it is served between the deaths.
          const { eventId } = must(
            await api.post(
              "/api/v1/events",
              { externalUserId: "else", eventType: "lesson.completed" },
              { key: other.key },
            ),
            200,
          );
          others++;
          await eventually(async () => (await eventOf(api, other, eventId)).status === "PROCESSED", {
            timeoutMs: 60_000,
            label: `an event beside it after ${deaths} deaths`,
          });
          assert.equal(await attemptsOf(sent.neighbours), 0, "no neighbour counts a try");
          return (await eventOf(api, tenant, sent.deadly)).status === "FAILED";
        },
        { timeoutMs: OVER_AFTER_MS, label: "the deadly event has failed" },
      );
      await assertFailed(api, tenant, sent);
      await eventuallyHolds(() => assertUnharmed(api, tenant, sent));
      assert.deepEqual(await xpOf(api, other), { else: others });
      assert.ok(worker.deaths() >= 5, `${worker.deaths()} deaths`);

      const deaths = worker.deaths();
      must(
        await api.post(
          "/api/v1/events?wait=true",
          { externalUserId: "victim", eventType: "lesson.completed" },
          { key: tenant.key },
        ),
        200,
      );
      assert.equal(worker.deaths(), deaths, "the worker lives on");
      await worker.stop();
      worker = own.startWorker();
      must(await api.post(`/api/v1/events/${sent.deadly}/retry`, {}, { key: tenant.key }), 200);
      await eventually(async () => (await eventOf(api, tenant, sent.deadly)).status === "PROCESSED", {
        timeoutMs: 60_000,
        label: "it is retried by hand where it is not deadly",
      });
    });

  it("harms nothing that was in hand when an operator killed the worker, however often", async () => {
    const tenant = await prepare(api);
    const ids: string[] = [];
    const worker = own.startWorker();
    for (let kills = 0; kills < 8; kills++) {
      const events = Array.from({ length: 100 }, (_, n) => ({
        externalUserId: `player-${n % 10}`,
        eventType: "lesson.completed",
      }));
      const { results } = must(await api.post("/api/v1/events/batch", { events }, { key: tenant.key }), 200);
      ids.push(...results.map(({ eventId }: { eventId: string }) => eventId));
      const before = ids.length - 50;
      await eventually(async () => (await xpSum(tenant)) > before, { timeoutMs: 60_000 });
      await worker.kill();
    }
    await eventually(async () => (await xpSum(tenant)) === ids.length, { timeoutMs: 60_000 });
    const { data } = must(await api.get("/api/v1/events?status=FAILED", { key: tenant.key }), 200);
    assert.deepEqual(data, []);
  });
  const xpSum = async (tenant: Tenant): Promise<number> =>
    Object.values(await xpOf(api, tenant)).reduce((sum, xp) => sum + xp, 0);
});

describe("an event that ends the embedded server", function () {
  this.timeout(2 * OVER_AFTER_MS);

  it("is FAILED after its tries, and everything else goes on", async () => {
    const dir = await temporaryDir();
    const port = await freePort();
    const env = { DATA_DIR: join(dir.path, "data"), PORT: String(port), DEMO: "off", LOG_LEVEL: "error" };
    await fillDataDir(env.DATA_DIR);
    const server = supervise(["serve"], { ...env, ...deadly("kill") });
    const api = clientOf(`http://127.0.0.1:${port}`);
    try {
      await eventually(async () => (await api.get("/health/ready")).status === 200, { timeoutMs: 60_000 });
      const [tenant, other] = [await prepare(api), await prepare(api)];
      const sent = await send(api, tenant);
      const isProcessed = async (id: string): Promise<boolean> =>
        (await eventOf(api, other, id)).status === "PROCESSED";
      let others = 0;
      await eventually(
        async () => {
          const idempotencyKey = `else-${others}`;
          const event = { externalUserId: "else", eventType: "lesson.completed", idempotencyKey };
          // The server may die of the other event meanwhile.
          const { eventId } = must(await api.post("/api/v1/events", event, { key: other.key }), 200);
          others++;
          await eventually(() => isProcessed(eventId), { timeoutMs: 60_000, label: "an event beside it" });
          return (await eventOf(api, tenant, sent.deadly)).status === "FAILED";
        },
        { timeoutMs: OVER_AFTER_MS, label: "the deadly event has failed" },
      );
      await assertFailed(api, tenant, sent);
      await eventuallyHolds(() => assertUnharmed(api, tenant, sent));
      assert.deepEqual(await xpOf(api, other), { else: others });
      assert.ok(server.deaths() >= 5, `${server.deaths()} deaths`);
    } finally {
      await server.stop();
      await dir.remove();
    }
  });
});
