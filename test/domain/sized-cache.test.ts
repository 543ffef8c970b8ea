import assert from "node:assert/strict";
import { createSizedCache, heapPartOf, type SizedCache } from "../../src/domain/kernel/caches.ts";

describe("a cache that is bounded", () => {
  const keptOf = (cache: SizedCache<string>, keys: string): string =>
    [...keys].filter((key) => cache.get(key) !== undefined).join("");
  const own = (bytes: number, owner = "one") => ({ owner, bytes });

  it("by bytes lets go of what was used longest ago, and counts what it keeps anew", () => {
    const cache = createSizedCache<string>({ items: 10, bytes: 100 });
    for (const key of "abc") assert.equal(cache.keep(key, key, own(30)), key);
    cache.get("a");
    cache.keep("d", "d", own(30));
    assert.equal(keptOf(cache, "abcd"), "acd");
    for (let i = 0; i < 5; i++) cache.keep("a", "again", own(40));
    assert.equal(keptOf(cache, "cda"), "cda");
    cache.keep("a", "again", own(41));
    assert.equal(keptOf(cache, "cda"), "da");
    assert.equal(cache.drop("d"), "d");
    cache.keep("b", "b", own(59));
    assert.equal(keptOf(cache, "abd"), "ab");
  });

  it("by number, too, and keeps the newest value however large it is", () => {
    const cache = createSizedCache<string>({ items: 2, bytes: 100 });
    for (const key of "abc") cache.keep(key, key, own(1));
    assert.equal(keptOf(cache, "abc"), "bc");
    cache.keep("d", "d", own(1_000));
    assert.equal(keptOf(cache, "abcd"), "d");
    cache.keep("e", "e", own(1));
    assert.equal(keptOf(cache, "de"), "e");
  });

  it("by bytes has less room in a small heap: all caches together fit into it", () => {
    const MIB = 1024 * 1024;
    assert.deepEqual(
      [512, 2_048, 4_096].map((mib) => heapPartOf(mib * MIB)),
      [1 / 4, 1, 1],
    );
    const cache = createSizedCache<string>({ items: 100, bytes: 400 }, heapPartOf(512 * MIB));
    for (const key of "abcdef") cache.keep(key, key, own(40, key));
    assert.equal(keptOf(cache, "abcdef"), "ef");
  });

  it("by bytes has room again for what was dropped", () => {
    const cache = createSizedCache<string>({ items: 10, bytes: 100 });
    for (const key of "ab") cache.keep(key, key, own(50, key));
    assert.equal(cache.drop("b"), "b");
    assert.equal(cache.drop("unknown"), undefined);
    cache.keep("c", "c", own(50, "c"));
    assert.equal(keptOf(cache, "abc"), "ac");
  });

  it("keeps what is others' when one owner keeps more than there is room for, again and again", () => {
    const cache = createSizedCache<string>({ items: 100, bytes: 100 });
    for (const key of "abc") cache.keep(key, key, own(10, "others"));
    for (let round = 0; round < 3; round++)
      for (let i = 0; i < 20; i++) cache.keep(`${i}`, "", own(10, "greedy"));
    assert.equal(keptOf(cache, "abc"), "abc");
    const ofGreedy = Array.from({ length: 20 }, (_, i) => cache.get(`${i}`)).filter((one) => one === "");
    assert.equal(ofGreedy.length, 7, "the rest is the greedy one's");
  });

  it("takes from the owner who has most, and from all alike where nobody has much", () => {
    const cache = createSizedCache<string>({ items: 100, bytes: 100 });
    for (const key of "abc") cache.keep(key, key, own(16, "some"));
    for (const key of "defg") cache.keep(key, key, own(13, "more"));
    cache.keep("h", "h", own(10, "few"));
    assert.equal(keptOf(cache, "abcdefgh"), "abcefgh");
    const even = createSizedCache<string>({ items: 10, bytes: 100 });
    for (const key of "abcdefghij") even.keep(key, key, own(10, key));
    even.keep("k", "k", own(20, "k"));
    assert.equal(keptOf(even, "abcdefghijk"), "cdefghijk", "also for one that has its only value from it");
  });
});
