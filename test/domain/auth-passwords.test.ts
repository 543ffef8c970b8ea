import assert from "node:assert/strict";
import { parseOptions } from "@node-rs/argon2";
import {
  createPasswords,
  DUMMY_HASH,
  type Guess,
  HASHES_AT_ONCE_MAX,
  HASHES_WAITING_MAX,
  isGuessable,
  passwordProblems,
  throttled,
} from "../../src/domain/accounts/auth/passwords.ts";
import { createShortCache } from "../../src/domain/accounts/auth/short-cache.ts";
import {
  type Bucket,
  type Counted,
  type Limiter,
  RateLimited,
} from "../../src/domain/accounts/rate-limits/limiter.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { pluck } from "../support/pluck.ts";

describe("passwords that everybody tries first", () => {
  const ada = { email: "ada.king@example.com", name: "Ada Lovelace" };

  it("are refused with whatever numbers and signs around or in them", () => {
    const usual = [
      "Password1",
      "P@ssw0rd",
      "Passw0rd!23",
      "Welcome1",
      "Qwerty123",
      "Abcd1234",
      "Aa123456",
      "Admin@123",
    ];
    for (const password of [...usual, "Letmein1", "1Q2w3e4r!", "Trustno1", "Changeme1", "Pa55word2026"]) {
      const problems = passwordProblems(password, ada).map(({ message }) => message);
      assert.equal(problems.length, 1, password);
      assert.match(problems[0] ?? "", /common word/);
    }
  });

  it("are refused when they are made of the name or the address", () => {
    for (const password of ["AdaLovelace1", "Lovelace1815", "Ada.King1815", "Ada12345"]) {
      assert.equal(passwordProblems(password, ada).length, 1, password);
    }
  });

  it("are not seen where such a word is a part of more", () => {
    for (const password of ["Engine-No-1", "Correct-horse-7", "My-password-is-long-1", "Ada-on-the-moon-9"]) {
      assert.deepEqual(passwordProblems(password, ada), [], password);
    }
  });

  it("are not found in what has no letters, whatever is known", () => {
    assert.equal(isGuessable("12345678", ["", "..."]), false);
  });
});

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

  it("is none for five, then 1, 2, 4 seconds and so on up to 60 at a known address", async () => {
    const home = knownBy("home");
    await fail(5, home);
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      const seconds = await waitOf(home);
      waits.push(seconds);
      nowMs += seconds * 1_000;
      await fail(1, home);
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
    const home = knownBy("home");
    await fail(4, home);
    assert.equal(await attempt(true, home), true);
    await fail(5, home);
    assert.equal(await waitOf(home), 1);
  });

  it("does not follow the address to another account", async () => {
    await fail(5);
    assert.equal(await attempt(true, { ...here, account: "grace@example.com" }), true);
  });

  it("of strangers is one for all addresses, and grows to six minutes", async () => {
    for (let i = 0; i < 5; i++) await fail(1, anywhere(i));
    const waits: number[] = [];
    for (let i = 5; i < 16; i++) {
      const seconds = await waitOf(anywhere(i));
      waits.push(seconds);
      assert.equal(await waitOf(anywhere(100 + i)), seconds, "the same from elsewhere");
      nowMs += seconds * 1_000;
      await fail(1, anywhere(i));
    }
    assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360]);
    await assert.rejects(attempt(true, anywhere(501)), RateLimited, "the right password is not looked at");
    nowMs += 360_000;
    assert.equal(await attempt(true, anywhere(502)), true);
    assert.equal(await waitOf(anywhere(503)), 360, "who is right makes it no shorter for the others");
  });

  it("is no shorter for many at once", async () => {
    const tries = await Promise.allSettled(Array.from({ length: 60 }, (_, i) => attempt(false, anywhere(i))));
    assert.equal(tries.filter(({ status }) => status === "fulfilled").length, 5);
  });

  it("of who is known to the account is their own, however it is guessed at from elsewhere", async () => {
    for (let i = 0; i < 50; i++) await attempt(false, anywhere(i)).catch(() => undefined);
    assert.equal(await attempt(true, knownBy("address")), true);
    await fail(5, knownBy("session", anywhere(600)));
    assert.equal(await waitOf(knownBy("session", anywhere(601))), 1, "from whatever address");
    assert.equal(await waitOf(knownBy("another address")), 0);
  });

  it("counts neither what was right nor what could not be checked", async () => {
    const broken = () =>
      throttled({ limiter, clock: () => new Date(nowMs) }, here, () => Promise.reject(new Error("busy")));
    for (let i = 0; i < 30; i++) await assert.rejects(broken(), /busy/);
    for (let i = 0; i < 30; i++) await attempt(true);
    await fail(5);
  });
});

const someone = { email: "ada@example.com", name: "Ada Lovelace" };

const messagesOf = (password: string) => passwordProblems(password, someone).map(({ message }) => message);

describe("passwords", () => {
  it("verifies the right password and no other", async () => {
    const passwords = createPasswords();
    const hash = await passwords.hash("Engine-No-1");
    assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    assert.equal(await passwords.verify(hash, "Engine-No-1"), true);
    assert.equal(await passwords.verify(hash, "engine-no-1"), false);
  });

  it("takes the composed and the decomposed spelling for one password", async () => {
    const passwords = createPasswords();
    const hash = await passwords.hash("Zürich-2026".normalize("NFD"));
    assert.equal(await passwords.verify(hash, "Zürich-2026".normalize("NFC")), true);
  });

  it("answers false for a hash that is none", async () => {
    const passwords = createPasswords();
    for (const garbage of ["", "x", "$argon2id$", "$2b$10$abcdefghijklmnopqrstuv"]) {
      assert.equal(await passwords.verify(garbage, "Engine-No-1"), false);
    }
  });

  it("spends on an unknown user what it spends on a known one", async () => {
    const passwords = createPasswords();
    const real = parseOptions(await passwords.hash("Engine-No-1"));
    assert.deepEqual(parseOptions(DUMMY_HASH), real);
    assert.equal(await passwords.verify(DUMMY_HASH, "Engine-No-1"), false);
  });

  it("keeps a bounded number of hashes waiting and tells the next one when to come back", async () => {
    const passwords = createPasswords();
    const all = Array.from({ length: HASHES_AT_ONCE_MAX + HASHES_WAITING_MAX + 1 }, () =>
      passwords.hash("Engine-No-1"),
    );
    const results = await Promise.allSettled(all);
    const refused = results.flatMap((result) =>
      result.status === "rejected" ? [result.reason as unknown] : [],
    );
    assert.equal(refused.length, 1);
    const [error] = refused;
    assert(error instanceof DomainError);
    assert.equal(error.code, "SERVICE_UNAVAILABLE");
    assert.equal(error.retryAfterSeconds, 1);
    assert.match(await passwords.hash("Engine-No-1"), /^\$argon2id/, "free again");
  });

  it("gives everybody a turn who comes while others are hashed", async () => {
    const passwords = createPasswords();
    const all = Array.from({ length: 3 * HASHES_AT_ONCE_MAX }, () => passwords.hash("Engine-No-1"));
    assert.equal(new Set(await Promise.all(all)).size, 3 * HASHES_AT_ONCE_MAX);
  });

  it("names every rule that a new password breaks", () => {
    assert.deepEqual(messagesOf("Engine-No-1"), []);
    assert.deepEqual(messagesOf("abc"), [
      "must have at least 8 characters",
      "must contain an uppercase letter",
      "must contain a number",
    ]);
    assert.deepEqual(messagesOf("ALLUPPER1"), ["must contain a lowercase letter"]);
    assert.deepEqual(messagesOf(`Aa1${"x".repeat(126)}`), ["must have at most 128 characters"]);
    assert.deepEqual(messagesOf(`Aa1${"😀".repeat(125)}`), [], "128 characters within 512 bytes");
    assert.deepEqual(messagesOf(`Äa1${"\u{1F600}".repeat(125)}x`), ["must have at most 128 characters"]);
  });

  it("refuses the email address and the name as a password", () => {
    const known = { email: "Ada1@example.com", name: "Ada Lovelace 1" };
    for (const password of ["aDa1@example.com", "Ada Lovelace 1"]) {
      assert.deepEqual(pluck(passwordProblems(password, known), "message"), [
        "must not be the email address or the name",
      ]);
    }
  });
});

describe("short cache", () => {
  it("shares one load among requests that arrive together, and keeps the answer", async () => {
    const cache = createShortCache<number>();
    let loads = 0;
    const load = async () => ++loads;
    assert.deepEqual(await Promise.all([cache.get("a", load), cache.get("a", load)]), [1, 1]);
    assert.equal(await cache.get("a", load), 1);
    cache.delete("a");
    assert.equal(await cache.get("a", load), 2);
    cache.clear();
    assert.equal(await cache.get("a", load), 3);
  });

  it("keeps neither failures nor absence", async () => {
    const cache = createShortCache<number>();
    await assert.rejects(
      cache.get("a", () => Promise.reject(new Error("down"))),
      /down/,
    );
    assert.equal(await cache.get("a", async () => undefined), undefined);
    assert.equal(await cache.get("a", async () => 7), 7);
  });

  it("does not keep an answer longer than the answer allows", async () => {
    const cache = createShortCache<number>(() => 0);
    assert.equal(await cache.get("a", async () => 1), 1);
    assert.equal(await cache.get("a", async () => 2), 2);
  });
});
