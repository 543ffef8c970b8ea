import assert from "node:assert/strict";
import fc from "fast-check";
import { type Bucket, RateLimited } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { createMemoryWindows } from "../../src/domain/accounts/rate-limits/memory-windows.ts";
import { createLimiter } from "../../src/platform/limiter.ts";
import { pluck } from "../support/pluck.ts";

const bucket = (points: number, name = "test", seconds = 60): Bucket => ({ name, points, seconds });

/** Windows under a clock that stands still until told. */
const timed = (maxWindows?: number) => {
  let nowMs = 1_000;
  const windows = createMemoryWindows(() => nowMs, maxWindows);
  const count = async (of: Bucket, key: string) => (await windows.consume([{ bucket: of, key }]))[0]!;
  return { windows, count, pass: (ms: number) => void (nowMs += ms) };
};

describe("the limiter of one process", () => {
  it("lets exactly the limit pass of three times as many at once", async () => {
    const limiter = createLimiter();
    const states = await Promise.all(Array.from({ length: 300 }, () => limiter.consume(bucket(100), "one")));
    assert.equal(states.filter(({ isAllowed }) => isAllowed).length, 100);
    const last = await limiter.read(bucket(100), "one");
    assert.deepEqual([last.used, last.limit, last.remaining], [300, 100, 0]);
  });

  it("keeps keys and names apart, and says what was never seen is unused", async () => {
    const limiter = createLimiter();
    await limiter.consume(bucket(5), "one");
    assert.equal((await limiter.consume(bucket(5), "two")).remaining, 4);
    assert.equal((await limiter.consume(bucket(5, "other"), "one")).remaining, 4);
    const { used, isAllowed, remaining } = await limiter.read(bucket(5), "never");
    assert.deepEqual([used, isAllowed, remaining], [0, true, 5]);
  });

  it("applies a new number to the window that is open", async () => {
    const limiter = createLimiter();
    for (let i = 0; i < 4; i++) await limiter.consume(bucket(3), "one");
    assert.equal((await limiter.read(bucket(3), "one")).isAllowed, false);
    const raised = await limiter.consume(bucket(500), "one");
    assert.deepEqual([raised.isAllowed, raised.remaining], [true, 495]);
    assert.equal((await limiter.consume(bucket(2), "one")).isAllowed, false);
  });

  it("counts in turn up to the first that is used up, and no further", async () => {
    const limiter = createLimiter();
    const [narrow, wide] = [bucket(1, "narrow"), bucket(10, "wide")];
    const both = [narrow, wide].map((of) => ({ bucket: of, key: "one" }));
    assert.deepEqual(pluck(await limiter.consumeInTurn(both), "remaining"), [0, 9]);
    const refused = await limiter.consumeInTurn(both);
    assert.deepEqual(pluck(refused, "isAllowed"), [false]);
    assert.equal((await limiter.read(wide, "one")).used, 1);
    assert.deepEqual(await limiter.consumeInTurn([]), []);
  });

  it("forgets a key when told to", async () => {
    const limiter = createLimiter();
    await limiter.consume(bucket(1), "one");
    await limiter.consume(bucket(1), "one");
    await limiter.reset(bucket(1), "one");
    assert.equal((await limiter.consume(bucket(1), "one")).isAllowed, true);
  });

  it("takes points back, and never shows less than none", async () => {
    const limiter = createLimiter();
    const { resetAtMs } = await limiter.consume(bucket(2), "one");
    const given = { bucket: bucket(2), key: "one", resetAtMs };
    await limiter.giveBack([given, given]);
    const { used, remaining } = await limiter.read(bucket(2), "one");
    assert.deepEqual([used, remaining], [0, 2]);
  });
});

describe("the refusal of a limit", () => {
  it("says how long to wait in the number that is right", () => {
    const waits = (ms: number) => {
      const state = { isAllowed: false, limit: 1, remaining: 0, windowSeconds: 60, resetAtMs: ms };
      return new RateLimited("TEST", "Too many", state, 0).message;
    };
    assert.equal(waits(1), "Too many; try again in 1 second");
    assert.equal(waits(1_001), "Too many; try again in 2 seconds");
  });
});

describe("windows in memory", () => {
  it("open with the first point, close after their seconds and then start anew", async () => {
    const { windows, count, pass } = timed();
    await count(bucket(5), "one");
    pass(59_999);
    assert.deepEqual(await count(bucket(5), "one"), { used: 2, closesInMs: 1 });
    pass(1);
    assert.equal(await windows.read(bucket(5), "one"), undefined);
    assert.deepEqual(await count(bucket(5), "one"), { used: 1, closesInMs: 60_000 });
  });

  it("take points back only while the one is open in which they were counted", async () => {
    const { windows, count, pass } = timed();
    const { closesInMs } = await count(bucket(5), "one");
    const taken = { bucket: bucket(5), key: "one" };
    await count(bucket(5), "one");
    await windows.takeBack({ ...taken, closesInMs });
    assert.equal((await windows.read(bucket(5), "one"))?.used, 1);
    pass(60_000);
    await windows.takeBack({ ...taken, closesInMs: 0 });
    assert.equal(await windows.read(bucket(5), "one"), undefined);
    await count(bucket(5), "one");
    await windows.takeBack({ ...taken, closesInMs: 0 });
    assert.equal((await windows.read(bucket(5), "one"))?.used, 1);
  });

  it("never number more than their bound: the oldest close first", async () => {
    const { windows, count } = timed(100);
    for (let i = 0; i < 10_000; i++) await count(bucket(5), `address ${i}`);
    const isOpen = async (n: number) => (await windows.read(bucket(5), `address ${n}`)) !== undefined;
    assert.equal(await isOpen(9_899), false);
    for (let n = 9_950; n < 10_000; n++) assert.equal(await isOpen(n), true, String(n));
  });

  it("of one name do not push those of another out", async () => {
    const { windows, count } = timed(100);
    await count(bucket(5, "login"), "one");
    for (let i = 0; i < 1_000; i++) await count(bucket(5), `address ${i}`);
    assert.equal((await windows.read(bucket(5, "login"), "one"))?.used, 1);
  });

  it("count as a list of all points would, for any order of points and pauses", async () => {
    const step = fc.record({
      key: fc.constantFrom("a", "b", "c"),
      pauseMs: fc.integer({ min: 0, max: 25_000 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { count, pass } = timed();
        const model = new Map<string, { used: number; endMs: number }>();
        let nowMs = 0;
        for (const { key, pauseMs } of steps) {
          pass(pauseMs);
          nowMs += pauseMs;
          const open = model.get(key);
          const next = open && open.endMs > nowMs ? open : { used: 0, endMs: nowMs + 60_000 };
          next.used += 1;
          model.set(key, next);
          assert.deepEqual(await count(bucket(5), key), { used: next.used, closesInMs: next.endMs - nowMs });
        }
      }),
    );
  });
});
