import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { createWaitingRoom, KeyedSemaphore, Semaphore } from "../../src/domain/kernel/slots.ts";
import { cases } from "../support/properties.ts";

class TooMany extends Error {}
class Gone extends Error {}

const refusal = (): Error => new TooMany("too many");

type State = "holds" | "waits" | "refused" | "gone" | "done";
type Step = { what: "come" | "leave" | "vanish"; key: string; which: number };

/** Who has come, in that order, and what has become of them by the specification. */
class Model {
  readonly comers: { key: string; state: State }[] = [];
  readonly #slots: number;
  readonly #waitingMax: number;

  constructor(slots: number, waitingMax: number) {
    this.#slots = slots;
    this.#waitingMax = waitingMax;
  }

  those(key: string, state: State): number[] {
    return [...this.comers.keys()].filter((n) => {
      const comer = this.comers[n]!;
      return comer.key === key && comer.state === state;
    });
  }

  come(key: string): void {
    const isFree = this.those(key, "holds").length < this.#slots;
    const mayWait = this.those(key, "waits").length < this.#waitingMax;
    this.comers.push({ key, state: isFree ? "holds" : mayWait ? "waits" : "refused" });
  }

  leave(n: number): void {
    const { key } = this.comers[n]!;
    this.comers[n]!.state = "done";
    const [next] = this.those(key, "waits");
    if (next !== undefined) this.comers[next]!.state = "holds";
  }

  vanish(n: number): void {
    if (this.comers[n]!.state === "waits") this.comers[n]!.state = "gone";
  }
}

/** The same with the real thing. */
class Real {
  readonly states: State[] = [];
  readonly #clients: AbortController[] = [];
  readonly #semaphore: KeyedSemaphore;

  constructor(semaphore: KeyedSemaphore) {
    this.#semaphore = semaphore;
  }

  come(key: string): void {
    const n = this.states.push("waits") - 1;
    const client = new AbortController();
    this.#clients.push(client);
    this.#semaphore.acquire(key, { tenantId: key, signal: client.signal }).then(
      () => (this.states[n] = "holds"),
      (error: unknown) => (this.states[n] = error instanceof TooMany ? "refused" : "gone"),
    );
  }

  leave(n: number, key: string): void {
    this.states[n] = "done";
    this.#semaphore.release(key);
  }

  vanish(n: number): void {
    this.#clients[n]!.abort(new Gone("gone"));
  }
}

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    what: fc.constantFrom("come", "come", "leave", "vanish"),
    key: fc.constantFrom("a", "b"),
    which: fc.nat({ max: 20 }),
  }),
  { maxLength: 60 },
);

describe("a semaphore of keys", () => {
  it("admits no more than its slots at once, in the order of their coming, whoever vanishes", async () => {
    const numbers = { slots: fc.integer({ min: 1, max: 3 }), waitingMax: fc.integer({ min: 0, max: 4 }) };
    await fc.assert(
      fc.asyncProperty(fc.record(numbers), steps, async ({ slots, waitingMax }, program) => {
        const room = createWaitingRoom({ tenantMax: { count: waitingMax, bytes: 0 } });
        const semaphore = new KeyedSemaphore({ slots, waitingMax, refusal, room });
        const [model, real] = [new Model(slots, waitingMax), new Real(semaphore)];
        const leave = async (key: string, which: number): Promise<void> => {
          const holders = model.those(key, "holds");
          const n = holders[which % holders.length];
          if (n === undefined) return;
          model.leave(n);
          real.leave(n, key);
        };
        for (const { what, key, which } of program) {
          if (what === "come") {
            model.come(key);
            real.come(key);
          } else if (what === "leave") await leave(key, which);
          else if (which < model.comers.length) {
            model.vanish(which);
            real.vanish(which);
          }
          await nextTurn();
          assert.deepEqual(
            real.states,
            model.comers.map(({ state }) => state),
          );
        }
        for (const key of ["a", "b"])
          while (model.those(key, "holds").length > 0) {
            await leave(key, 0);
            await nextTurn();
          }
        assert.ok(!real.states.includes("waits") && !real.states.includes("holds"));
        assert.equal(semaphore.size, 0);
        // Nothing is counted as waiting any more: as many can wait again.
        const leaves = Array.from({ length: waitingMax }, () => room.take({ tenantId: "a" }));
        for (const one of leaves) one();
      }),
      { numRuns: cases(200) },
    );
  });

  it("keeps no key of who was gone before they came", async () => {
    const semaphore = new KeyedSemaphore({ slots: 1, waitingMax: 1, refusal });
    await assert.rejects(semaphore.acquire("a", { signal: AbortSignal.abort(new Gone("gone")) }), Gone);
    assert.equal(semaphore.size, 0);
  });

  it("gives the slot of work that fails to the next one", async () => {
    const semaphore = new KeyedSemaphore({ slots: 1, waitingMax: 1, refusal });
    const failing = semaphore.run("a", () => Promise.reject(new Gone("failed")));
    const next = semaphore.run("a", async () => "done");
    await assert.rejects(failing, Gone);
    assert.equal(await next, "done");
    assert.equal(semaphore.size, 0);
  });
});

describe("a semaphore", () => {
  it("refuses who has waited too long, without losing a slot", async () => {
    const semaphore = new Semaphore({ slots: 1, waitingMax: 1, waitMaxMs: 5, refusal });
    assert.ok(semaphore.tryAcquire() && !semaphore.tryAcquire());
    await assert.rejects(semaphore.acquire(), TooMany);
    assert.equal(semaphore.waiting, 0);
    semaphore.release();
    assert.ok(semaphore.isIdle);
    assert.throws(() => semaphore.release());
  });
});
