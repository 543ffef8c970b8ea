import assert from "node:assert/strict";
import { type Guess, throttled } from "../../src/domain/auth/login-throttle.ts";
import {
  type Bucket,
  type Counted,
  type Limiter,
  RateLimited,
} from "../../src/domain/rate-limits/limiter.ts";

/** Windows by a clock that the test moves. */
const limiterAt = (nowMs: () => number): Limiter => {
  const windows = new Map<string, { used: number; endMs: number }>();
  const count = ({ name, points, seconds }: Bucket, key: string, add: number): Counted => {
    const id = `${name}:${key}`;
    let window = windows.get(id);
    if (!window || window.endMs <= nowMs()) {
      window = { used: 0, endMs: nowMs() + seconds * 1_000 };
      if (add !== 0) windows.set(id, window);
    }
    window.used += add;
    const { used, endMs: resetAtMs } = window;
    const remaining = Math.max(0, points - used);
    return { isAllowed: used <= points, limit: points, remaining, windowSeconds: seconds, resetAtMs, used };
  };
  return {
    consume: async (bucket, key, points = 1) => count(bucket, key, points),
    consumeInTurn: async () => [],
    read: async (bucket, key) => count(bucket, key, 0),
    reset: async ({ name }, key) => void windows.delete(`${name}:${key}`),
  };
};

describe("the wait after wrong passwords", () => {
  let nowMs = 0;
  let limiter: Limiter;
  beforeEach(() => {
    nowMs = Date.UTC(2026, 0, 1);
    limiter = limiterAt(() => nowMs);
  });

  const here: Guess = { ip: "192.0.2.1", account: "ada@example.com" };
  const attempt = (isRight: boolean, guess = here) =>
    throttled({ limiter, clock: () => new Date(nowMs) }, guess, async () => isRight);
  /** Seconds until the next try, 0 for none; the try itself is wrong. */
  const waitOf = async (guess = here): Promise<number> => {
    try {
      await attempt(false, guess);
      return 0;
    } catch (error) {
      assert.ok(error instanceof RateLimited, String(error));
      assert.equal(error.reason, "LOGIN_THROTTLED");
      return error.retryAfterSeconds ?? 0;
    }
  };
  const fail = async (times: number, guess = here): Promise<void> => {
    for (let i = 0; i < times; i++) assert.equal(await waitOf(guess), 0);
  };

  it("is none for five, then 1, 2, 4 seconds and so on up to 60", async () => {
    await fail(5);
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      const seconds = await waitOf();
      waits.push(seconds);
      nowMs += seconds * 1_000;
      await fail(1);
    }
    assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
  });

  it("does not grow by trying meanwhile, and a right password has to wait it out too", async () => {
    await fail(5);
    for (let i = 0; i < 10; i++) assert.equal(await waitOf(), 1);
    await assert.rejects(attempt(true), RateLimited);
    nowMs += 1_000;
    assert.equal(await attempt(true), true);
  });

  it("begins anew after a right password", async () => {
    await fail(4);
    assert.equal(await attempt(true), true);
    await fail(5);
    assert.equal(await waitOf(), 1);
  });

  it("does not follow the account to another address, nor the address to another account", async () => {
    await fail(5);
    assert.equal(await attempt(true, { ...here, ip: "192.0.2.2" }), true);
    assert.equal(await attempt(true, { ...here, account: "grace@example.com" }), true);
  });

  it("is shared by the addresses of one IPv6 subscriber", async () => {
    for (let i = 1; i <= 5; i++) await fail(1, { ...here, ip: `2001:db8:1:2::${i}` });
    assert.equal(await waitOf({ ...here, ip: "2001:db8:1:2:ffff::1" }), 1);
    assert.equal(await waitOf({ ...here, ip: "2001:db8:1:3::1" }), 0);
  });

  it("is there from the first failure on while an account is guessed at from everywhere", async () => {
    for (let i = 0; i < 100; i++) await fail(1, { ...here, ip: `198.51.100.${i}` });
    assert.equal(await attempt(true), true, "who makes no mistake is not concerned");
    await fail(1);
    assert.equal(await waitOf(), 60);
  });

  it("counts neither what was right nor what could not be checked", async () => {
    const broken = () =>
      throttled({ limiter, clock: () => new Date(nowMs) }, here, () => Promise.reject(new Error("busy")));
    for (let i = 0; i < 30; i++) await assert.rejects(broken(), /busy/);
    for (let i = 0; i < 30; i++) await attempt(true);
    await fail(5);
  });
});
