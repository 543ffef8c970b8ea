import assert from "node:assert/strict";
import { createSizedCache } from "../../src/domain/sized-cache.ts";

describe("a cache that is bounded", () => {
  const keptOf = (cache: ReturnType<typeof createSizedCache<string>>, keys: string): string =>
    [...keys].filter((key) => cache.get(key) !== undefined).join("");

  it("by bytes lets go of what was used longest ago, and counts what it keeps anew", () => {
    const cache = createSizedCache<string>({ items: 10, bytes: 100 });
    for (const key of "abc") assert.equal(cache.keep(key, key, 30), key);
    cache.get("a");
    cache.keep("d", "d", 30);
    assert.equal(keptOf(cache, "abcd"), "acd");
    for (let i = 0; i < 5; i++) cache.keep("a", "again", 40);
    assert.equal(keptOf(cache, "cda"), "cda");
    cache.keep("a", "again", 41);
    assert.equal(keptOf(cache, "cda"), "da");
  });

  it("by number, too, and keeps the newest value however large it is", () => {
    const cache = createSizedCache<string>({ items: 2, bytes: 100 });
    for (const key of "abc") cache.keep(key, key, 1);
    assert.equal(keptOf(cache, "abc"), "bc");
    cache.keep("d", "d", 1_000);
    assert.equal(keptOf(cache, "abcd"), "d");
    cache.keep("e", "e", 1);
    assert.equal(keptOf(cache, "de"), "e");
  });

  it("by bytes has room again for what was dropped", () => {
    const cache = createSizedCache<string>({ items: 10, bytes: 100 });
    for (const key of "ab") cache.keep(key, key, 50);
    cache.drop("b");
    cache.drop("unknown");
    cache.keep("c", "c", 50);
    assert.equal(keptOf(cache, "abc"), "ac");
  });
});
