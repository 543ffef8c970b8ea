import assert from "node:assert/strict";
import { CACHE_MAX_ENTRIES, createShortCache } from "../../src/domain/accounts/auth/short-cache.ts";

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

  it("drops the oldest entry when it is full", async () => {
    const cache = createShortCache<number>();
    for (let i = 0; i <= CACHE_MAX_ENTRIES; i++) await cache.get(String(i), async () => i);
    assert.equal(await cache.get("0", async () => -1), -1);
    assert.equal(await cache.get(String(CACHE_MAX_ENTRIES), async () => -1), CACHE_MAX_ENTRIES);
  });
});
