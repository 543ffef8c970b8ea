import assert from "node:assert/strict";
import { changeConfig, type RowScope, Unprepared } from "../../src/domain/kernel/work.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { createTransact, Lanes, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import { eventually } from "../support/eventually.ts";
import { memoryDomain } from "../support/domain/domain.ts";

const BUSY = { code: "SERVICE_UNAVAILABLE", reason: "BUSY", retryAfterSeconds: 1 };

/** A transaction that keeps its lane and no connection until it is prepared. */
class Held extends Unprepared {
  readonly #until: Promise<void>;

  constructor(until: Promise<void>) {
    super("held");
    this.#until = until;
  }

  override prepare(): Promise<void> {
    return this.#until;
  }
}

describe("a lane", () => {
  it("lets in one at a time, in the order of their coming", async () => {
    const lanes = new Lanes();
    const entered: number[] = [];
    assert.ok(lanes.tryEnter("a") && !lanes.tryEnter("a") && lanes.tryEnter("b"));
    const all = [1, 2, 3].map(async (n) => {
      await lanes.enter("a");
      entered.push(n);
      lanes.leave("a");
    });
    assert.deepEqual(entered, []);
    lanes.leave("a");
    await Promise.all(all);
    assert.deepEqual(entered, [1, 2, 3]);
    assert.ok(lanes.tryEnter("a"));
  });

  it("sends away the 61st who waits, and who has waited too long, without losing a place", async () => {
    const lanes = new Lanes({ waitMaxMs: 20 });
    lanes.tryEnter("a");
    const late = Array.from({ length: 60 }, () => lanes.enter("a"));
    await assert.rejects(lanes.enter("a"), BUSY);
    for (const one of late) await assert.rejects(one, BUSY);
    lanes.leave("a");
    assert.ok(lanes.tryEnter("a"));
  });

  it("holds no more of a tenant over all lanes than its share, and so has room for another", async () => {
    const lanes = new Lanes({
      bounds: { ofOwner: { waiting: 3, bytes: 100 }, ofAll: { waiting: 4, bytes: 150 } },
    });
    for (const key of ["a", "b", "c"]) lanes.tryEnter(key);
    const waiting = [
      lanes.enter("a", { owner: "greedy", bytes: 60 }),
      lanes.enter("b", { owner: "greedy", bytes: 40 }),
    ];
    await assert.rejects(lanes.enter("c", { owner: "greedy", bytes: 1 }), BUSY);
    waiting.push(lanes.enter("c", { owner: "greedy", bytes: 0 }));
    await assert.rejects(lanes.enter("c", { owner: "greedy", bytes: 0 }), BUSY);
    waiting.push(lanes.enter("c", { owner: "other", bytes: 50 }));
    // All is taken now, whoever asks; the server itself still waits in its place.
    await assert.rejects(lanes.enter("c", { owner: "third", bytes: 0 }), BUSY);
    waiting.push(lanes.enter("c"));
    for (const key of ["a", "b", "c"]) lanes.leave(key);
    await Promise.all(waiting.slice(0, 2));
    lanes.leave("a", { owner: "greedy" });
    await waiting[2];
    lanes.leave("c", { owner: "greedy" });
    await waiting[3];
    lanes.leave("c", { owner: "other" });
    await waiting[4];
  });

  it("lets who is waited for no more leave the line at once", async () => {
    const lanes = new Lanes();
    lanes.tryEnter("a");
    const gone = new AbortController();
    const left = Array.from({ length: 60 }, () =>
      lanes.enter("a", { owner: "t", bytes: 0, signal: gone.signal }),
    );
    gone.abort(new Error("gone"));
    for (const one of left) await assert.rejects(one, { message: "gone" });
    await assert.rejects(lanes.enter("a", { owner: "t", bytes: 0, signal: gone.signal }), {
      message: "gone",
    });
    const stays = lanes.enter("a", { owner: "t", bytes: 0 });
    lanes.leave("a");
    await stays;
  });
});

describe("a transaction that changes definitions", () => {
  const { database, domain } = memoryDomain();

  it("gives its turn to the next one when it is over, whatever came of it", async () => {
    const projectId = await domain.addProject();
    const change = (n: number) =>
      domain.transact(async (work) => {
        await changeConfig(work, projectId);
        if (n % 2 === 1) throw new Error(`undone ${n}`);
        return n;
      });
    const done = await Promise.allSettled([0, 1, 2, 3, 4].map(change));
    assert.deepEqual(
      done.map((one) => (one.status === "fulfilled" ? one.value : (one.reason as Error).message)),
      [0, "undone 1", 2, "undone 3", 4],
    );
  });

  it("waits as the request it is of: for a tenant, with its bytes, while its client is there", async () => {
    const projectId = await domain.addProject();
    const lanes = new Lanes({
      bounds: { ofOwner: { waiting: 10, bytes: 100 }, ofAll: { waiting: 20, bytes: 200 } },
    });
    const parts = {
      em: database.em,
      clock: () => new Date(),
      wakeUps: NO_WAKE_UPS,
      onError: (error: unknown): never => assert.fail(String(error)),
      lanes,
    };
    const released = Promise.withResolvers<void>();
    const isIn = Promise.withResolvers<void>();
    const holding = createTransact(parts)(async (work) => {
      await changeConfig(work, projectId);
      isIn.resolve();
      if (work.lanes.undone === 0) throw new Held(released.promise);
    });
    await isIn.promise;
    const client = new AbortController();
    const requested = (tenantId: string, bytes: number): Promise<void> => {
      const by = { caller: { kind: "anonymous" }, ip: "", userAgent: "", requestId: "" } as const;
      const waits = { bytes, signal: client.signal };
      const rowScope: RowScope = { role: "web", tenantId, projectIds: [projectId], by: { ...by, waits } };
      return createTransact(parts, rowScope)((work) => changeConfig(work, projectId));
    };
    const [tenant, another] = [newId(), newId()];
    await assert.rejects(requested(tenant, 101), BUSY);
    const waiting = [requested(tenant, 60), requested(another, 60)];
    await eventually(() => assert.rejects(requested(tenant, 60), BUSY).then(() => true));
    client.abort(new Error("gone"));
    for (const one of waiting) await assert.rejects(one, { message: "gone" });
    released.resolve();
    await holding;
  });
});
