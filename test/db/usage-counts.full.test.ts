import assert from "node:assert/strict";
import { sql } from "kysely";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { newId, partitionOf } from "../../src/domain/kernel/ids.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import type { NewEvent } from "../../src/domain/tracking/event-input.ts";
import { type MeteredRequest, storeMetered } from "../../src/domain/tracking/meter.ts";
import { startDatabase } from "../support/processes/services.ts";
import { randomOf } from "../support/seed.ts";

/** Slots of processes that are killed, or go on, at random. */
const SLOTS = 40;
const UNDONE = new Error("rolled back by the test");

describe("events that are counted in many rows", () => {
  let transact: Transact;
  let stop: () => Promise<void>;
  let now: Date;
  before(async () => {
    const { database, remove } = await startDatabase(16);
    stop = remove;
    const onError = (error: unknown): never => assert.fail(String(error));
    transact = createTransact({ em: database.em, clock: () => now, wakeUps: NO_WAKE_UPS, onError });
  });
  beforeEach(() => {
    now = new Date();
  });
  after(() => stop());

  const eventOf = (projectId: string, key: string | null): NewEvent => {
    const [id, user] = [newId(), "ada"];
    const h = partitionOf(projectId, user);
    const [d, at] = ["{}", now.getTime()];
    return { id, p: projectId, u: user, t: "goal", d, ts: at, at, k: key, x: id.replaceAll("-", ""), h };
  };
  const requestOf = (tenantId: string, eventsPerMonth: number | null, keys: (string | null)[]) => ({
    sender: { tenantId, tenant: { plan: "FREE" as const, planOverrides: { eventsPerMonth } } },
    events: keys.map((key) => eventOf(tenantId, key)),
  });
  const storedOf = async (tenantId: string): Promise<number> => {
    const { rows } = await transact(({ db }) =>
      sql<{ n: number }>`select count(*) as n from tracked_events where project_id = ${tenantId}`.execute(db),
    );
    return rows[0]!.n;
  };
  const countedOf = async (tenantId: string): Promise<{ events: number; rows: number }> => {
    const { rows } = await transact(({ db }) =>
      sql<{ n: number; r: number }>`select coalesce(sum(events), 0) as n, count(*) as r
        from usage_counters where tenant_id = ${tenantId}`.execute(db),
    );
    return { events: rows[0]!.n, rows: rows[0]!.r };
  };
  /** Stores as one transaction; some are rolled back, and the connections of some are cut. */
  const store = async (
    requests: readonly MeteredRequest[],
    slot: number,
    end: "COMMIT" | "ROLLBACK" | "KILL" = "COMMIT",
  ): Promise<DomainError[]> => {
    try {
      return await transact(async (work) => {
        const results = await storeMetered(work, requests, { chunk: 10_000, slot });
        if (end === "ROLLBACK") throw UNDONE;
        if (end === "KILL")
          await sql`select pg_terminate_backend(pg_backend_pid())`.execute(work.db).catch(() => undefined);
        return [...results.values()].filter((result) => result instanceof DomainError);
      });
    } catch (error) {
      if (end === "COMMIT") throw error;
      return [];
    }
  };

  for (const seed of [1, 2, 3])
    it(`are never more than the limit, nor refused before it (seed ${seed})`, async () => {
      const random = randomOf(`usage ${seed}`);
      const below = (n: number): number => random.between(0, n - 1);
      const tenants = Array.from({ length: 3 }, () => ({ id: newId(), limit: 200 + below(800) }));
      const free = newId();
      let refusals = 0;
      const worker = async (): Promise<void> => {
        for (let n = 0; n < 40; n++) {
          const requests = Array.from({ length: 1 + below(6) }, () => {
            const { id, limit } = tenants[below(tenants.length)]!;
            const keys = Array.from({ length: 1 + below(12) }, () =>
              below(3) === 0 ? `key-${below(300)}` : null,
            );
            return below(5) === 0 ? requestOf(free, null, keys) : requestOf(id, limit, keys);
          });
          const end = (["KILL", "ROLLBACK"] as const)[below(20)] ?? "COMMIT";
          for (const error of await store(requests, 1 + below(SLOTS), end)) {
            refusals++;
            assert.equal(error.reason, "PLAN_LIMIT_EXCEEDED");
            const [, limit, used, , over] = /limit (\d+), used (\d+), sent (\d+), over by (\d+)/
              .exec(error.details[0]!.message)!
              .map(Number);
            assert.ok(used! <= limit! && over! > 0);
          }
        }
      };
      await Promise.all(Array.from({ length: 8 }, worker));
      assert.ok(refusals > 0);
      for (const { id, limit } of tenants) {
        const stored = await storedOf(id);
        assert.ok(stored <= limit, `${stored} of ${limit}`);
        assert.equal((await countedOf(id)).events, stored);
        // What rooms of any row have left is still there to be had, to the last event.
        for (let left = limit - stored; left > 0; left--)
          assert.deepEqual(await store([requestOf(id, limit, [null])], 1 + below(SLOTS)), []);
        assert.equal((await store([requestOf(id, limit, [null])], 1 + below(SLOTS))).length, 1);
        assert.equal(await storedOf(id), limit);
        // Repetitions are none of its events.
        const { rows } = await transact(({ db }) =>
          sql<{ k: string }>`select idempotency_key as k from event_dedupe
            where project_id = ${id} limit 1`.execute(db),
        );
        if (rows[0]) assert.deepEqual(await store([requestOf(id, limit, [rows[0].k])], 1), []);
      }
      assert.equal((await countedOf(free)).events, await storedOf(free));
    });

  it("follow a limit that is raised, lowered, lifted and set again", async () => {
    const id = newId();
    const send = async (limit: number | null, count: number, slot: number): Promise<boolean> =>
      (
        await store(
          [
            requestOf(
              id,
              limit,
              Array.from({ length: count }, () => null),
            ),
          ],
          slot,
        )
      ).length === 0;
    assert.ok(await send(1_000, 10, 1));
    assert.ok(await send(1_000, 10, 2));
    assert.equal(await send(25, 6, 3), false);
    assert.ok(await send(25, 5, 3));
    assert.equal(await send(25, 1, 1), false);
    assert.ok(await send(26, 1, 1));
    assert.ok(await send(null, 100, 2));
    assert.equal(await send(126, 1, 2), false);
    assert.ok(await send(127, 1, 1));
    assert.equal((await countedOf(id)).events, 127);
  });
});
