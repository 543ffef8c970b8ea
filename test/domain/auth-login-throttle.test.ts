import assert from "node:assert/strict";
import { type Guess, throttled } from "../../src/domain/accounts/auth/passwords.ts";
import {
  type Bucket,
  type Counted,
  type Limiter,
  RateLimited,
} from "../../src/domain/accounts/rate-limits/limiter.ts";

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
    giveBack: async (given) => {
      for (const { bucket, key, resetAtMs } of given) {
        const window = windows.get(`${bucket.name}:${key}`);
        if (window?.endMs === resetAtMs) window.used--;
      }
    },
    read: async (bucket, key) => count(bucket, key, 0),
    reset: async ({ name }, key) => void windows.delete(`${name}:${key}`),
  };
};

const HOUR = 3_600;

describe("the wait after wrong passwords", () => {
  let nowMs = 0;
  let limiter: Limiter;
  beforeEach(() => {
    nowMs = Date.UTC(2026, 0, 1);
    limiter = limiterAt(() => nowMs);
  });

  const stranger = async () => undefined;
  const here: Guess = { ip: "192.0.2.1", account: "ada@example.com", known: stranger };
  const anywhere = (n: number): Guess => ({ ...here, ip: `198.51.${Math.floor(n / 250)}.${n % 250}` });
  const knownBy = (origin: string, guess = here): Guess => ({ ...guess, known: async () => origin });
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
    const device = knownBy("device");
    await fail(5, device);
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      const seconds = await waitOf(device);
      waits.push(seconds);
      nowMs += seconds * 1_000;
      await fail(1, device);
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

  it("of strangers is up to the hour's end after ten for an account, from any addresses", async () => {
    for (let i = 0; i < 10; i++) await fail(1, anywhere(i));
    for (let i = 10; i < 500; i++) assert.equal(await waitOf(anywhere(i)), HOUR);
    await assert.rejects(attempt(true, anywhere(501)), RateLimited, "the right password is not looked at");
    assert.equal(await attempt(true, { ...anywhere(502), account: "grace@example.com" }), true);
    nowMs += HOUR * 1_000;
    for (let i = 0; i < 10; i++) await fail(1, anywhere(i));
    assert.equal(await waitOf(anywhere(10)), HOUR);
  });

  it("of strangers is no shorter for many at once, and for those who know it is right", async () => {
    const tries = await Promise.allSettled(Array.from({ length: 60 }, (_, i) => attempt(false, anywhere(i))));
    assert.equal(tries.filter(({ status }) => status === "fulfilled").length, 10);
    nowMs += HOUR * 1_000;
    for (let i = 0; i < 30; i++) assert.equal(await attempt(true, anywhere(i)), true);
    for (let i = 0; i < 10; i++) await fail(1, anywhere(100 + i));
    assert.equal(await waitOf(anywhere(200)), HOUR);
  });

  it("of who is known to the account is their own, however it is guessed at from elsewhere", async () => {
    for (let i = 0; i < 50; i++) await attempt(false, anywhere(i)).catch(() => undefined);
    assert.equal(await attempt(true, knownBy("address")), true);
    await fail(5, knownBy("device", anywhere(600)));
    assert.equal(await waitOf(knownBy("device", anywhere(601))), 1, "from whatever address");
    assert.equal(await waitOf(knownBy("another device")), 0);
  });

  it("counts neither what was right nor what could not be checked", async () => {
    const broken = () =>
      throttled({ limiter, clock: () => new Date(nowMs) }, here, () => Promise.reject(new Error("busy")));
    for (let i = 0; i < 30; i++) await assert.rejects(broken(), /busy/);
    for (let i = 0; i < 30; i++) await attempt(true);
    await fail(5);
  });
});
