import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { Bulkhead } from "../../src/domain/kernel/bulkhead.ts";
import { cases } from "../support/properties.ts";

class TooMany extends Error {}
class Gone extends Error {}

const refusal = (): Error => new TooMany("too many");

type Comer = {
  key: string;
  client: AbortController;
  state: "waits" | "holds" | "refused" | "gone" | "done";
};

describe("a bulkhead", () => {
  const program = fc.array(
    fc.record({
      what: fc.constantFrom("come", "come", "leave", "vanish"),
      key: fc.constantFrom("a", "b", "c"),
      which: fc.nat({ max: 20 }),
    }),
    { maxLength: 60 },
  );
  const bounds = {
    ofKey: fc.integer({ min: 1, max: 3 }),
    ofAll: fc.integer({ min: 1, max: 5 }),
    waiting: fc.integer({ min: 0, max: 4 }),
  };

  it("leaves no slot free that somebody waits for, serves a key in order, and refuses only beyond its bounds", () =>
    fc.assert(
      fc.asyncProperty(fc.record(bounds), program, async ({ ofKey, ofAll, waiting }, steps) => {
        const options = { ofKey: { slots: ofKey, waiting }, ofOwner: { waiting }, ofAll: { slots: ofAll } };
        const bulkhead = new Bulkhead({ ...options, refusal });
        const comers: Comer[] = [];
        const those = (state: Comer["state"], key?: string) =>
          comers.filter((one) => one.state === state && (key === undefined || one.key === key));
        const hasSlot = (key: string) => those("holds").length < ofAll && those("holds", key).length < ofKey;
        const come = (key: string): void => {
          const comer: Comer = { key, client: new AbortController(), state: "waits" };
          const isRefused = !hasSlot(key) && those("waits", key).length >= waiting;
          comers.push(comer);
          bulkhead.acquire(key, { owner: key, signal: comer.client.signal }).then(
            () => {
              assert.equal(those("waits", key)[0], comer, "the first who waits of its key");
              comer.state = "holds";
            },
            (error: unknown) => {
              assert.equal(error instanceof TooMany, isRefused);
              comer.state = error instanceof TooMany ? "refused" : "gone";
            },
          );
        };
        const leave = (comer: Comer | undefined): void => {
          if (!comer) return;
          comer.state = "done";
          bulkhead.release(comer.key);
        };
        for (const { what, key, which } of steps) {
          if (what === "come") come(key);
          else if (what === "leave") leave(those("holds")[which % Math.max(1, those("holds").length)]);
          else comers[which]?.client.abort(new Gone("gone"));
          await nextTurn();
          assert.ok(those("holds").length <= ofAll);
          for (const one of ["a", "b", "c"]) {
            assert.ok(those("holds", one).length <= ofKey && those("waits", one).length <= waiting);
            assert.ok(!hasSlot(one) || those("waits", one).length === 0, "nobody waits for a free slot");
          }
        }
        while (those("holds").length > 0) {
          leave(those("holds")[0]);
          await nextTurn();
        }
        assert.deepEqual([those("waits").length, bulkhead.waiting, bulkhead.size], [0, 0, 0]);
      }),
      { numRuns: cases(200) },
    ));

  it("lets keys take turns, however many of one have come first", async () => {
    const bulkhead = new Bulkhead({ ofAll: { slots: 1 }, refusal });
    const served: string[] = [];
    const work = (key: string) => bulkhead.run(key, async () => void served.push(key));
    await Promise.all([...Array.from({ length: 5 }, () => work("many")), work("few"), work("few")]);
    assert.deepEqual(served.slice(0, 5), ["many", "many", "few", "many", "few"]);
  });

  it("lets a key that holds less go before one that came first", async () => {
    const bulkhead = new Bulkhead({ ofKey: { slots: 3 }, ofAll: { slots: 4 }, refusal });
    const served: string[] = [];
    const acquire = (key: string) => bulkhead.acquire(key).then(() => served.push(key));
    for (const key of ["many", "many", "many", "many", "few", "few"]) void acquire(key);
    await nextTurn();
    bulkhead.release("many");
    await nextTurn();
    assert.deepEqual(served, ["many", "many", "many", "few", "few"]);
  });

  it("gives the slot of work that fails to the next one, and keeps no key of who was gone before", async () => {
    const bulkhead = new Bulkhead({ ofKey: { slots: 1 }, refusal });
    const failing = bulkhead.run("a", () => Promise.reject(new Gone("failed")));
    const next = bulkhead.run("a", async () => "done");
    await assert.rejects(failing, Gone);
    assert.equal(await next, "done");
    await assert.rejects(bulkhead.acquire("a", { signal: AbortSignal.abort(new Gone("gone")) }), Gone);
    assert.equal(bulkhead.size, 0);
  });

  it("forgets nobody who comes while somebody who was just served goes", async () => {
    const bulkhead = new Bulkhead({ ofKey: { slots: 1 }, refusal });
    assert.ok(bulkhead.tryAcquire("a"));
    const client = new AbortController();
    const first = bulkhead.acquire("a", { signal: client.signal });
    bulkhead.release("a");
    let isServed = false;
    const second = bulkhead.acquire("a").then(() => (isServed = true));
    client.abort(new Gone("gone"));
    await first;
    bulkhead.release("a");
    await nextTurn();
    assert.ok(isServed);
    await second;
    bulkhead.release("a");
    assert.deepEqual([bulkhead.waiting, bulkhead.size], [0, 0]);
  });

  it("refuses who has waited too long, without losing a slot", async () => {
    const bulkhead = new Bulkhead({ ofAll: { slots: 1 }, waitMaxMs: 5, refusal });
    assert.ok(bulkhead.tryAcquire() && !bulkhead.tryAcquire());
    await assert.rejects(bulkhead.acquire(), TooMany);
    bulkhead.release();
    assert.deepEqual([bulkhead.waiting, bulkhead.size], [0, 0]);
    assert.throws(() => bulkhead.release());
  });
});
