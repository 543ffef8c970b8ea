import assert from "node:assert/strict";
import fc from "fast-check";
import { atOnce, inSlices } from "../../src/domain/kernel/slices.ts";
import { jsonValue } from "../../src/http/json-parse.ts";
import { CPU_SLACK, leastBlockMs } from "../support/cpu.ts";
import { cases } from "../support/properties.ts";

/** Longer than what is parsed at once. */
const LONG = 70_000;
const BLOCK_MAX_MS = 25 * CPU_SLACK;

const parse = (text: string): unknown => atOnce(jsonValue(Buffer.from(text)));
const refusedBy = (read: () => unknown): boolean => {
  try {
    read();
    return false;
  } catch {
    return true;
  }
};

/** The text with one of its strings lengthened, so that everything around it is divided. */
const lengthened = (text: string): string => text.replace("~", "x".repeat(LONG));
const spaced = (text: string): string => JSON.stringify(JSON.parse(text), null, "\t");

describe("JSON that is parsed in steps", () => {
  it("is what JSON.parse makes of it, however it is divided", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), fc.json({ maxDepth: 2 }), (one, other) => {
        const texts = [one, `[${one},"~",${other}]`, `{"a":${one},"b":{"c":[1,"~",${one}]},"a":${other}}`];
        for (const text of texts.map(lengthened)) {
          assert.deepEqual(parse(text), JSON.parse(text));
          assert.equal(JSON.stringify(parse(spaced(text))), JSON.stringify(JSON.parse(spaced(text))));
        }
      }),
      { numRuns: cases(200) },
    );
  });

  it("is refused where JSON.parse refuses it", () => {
    const texts = [
      ...'[,1] [1,] [1 2] [] [1]] [[1] {,} {"a":1,} {"a"} {"a":} {a:1} {"a" 1} {} [}'.split(" "),
      ...'[~,1] [~,] [~ [1] [~]] {~,} {"a":~,} {"a":~ {"a"~} {"a",~} [~} {"a":[~},] [1,,~]'.split(" "),
      ...'"a 1e nul truex -1 "\\ud800" ["\\x",~] [~,"a] {"a\\":~} [~,{"a"}]'.split(" "),
      "",
      " ",
      "[~,1 2]",
      "[~ 1]",
      '{"a":~ "b":1}',
      '{"a" "b":~}',
      "[~]x",
    ].flatMap((text) => [text, text.replace("~", '"~"'), text.replace("~", '["~"]')]);
    assert.ok(texts.length > 100);
    for (const text of texts.map(lengthened))
      assert.equal(
        refusedBy(() => parse(text)),
        refusedBy(() => JSON.parse(text)),
        text.slice(0, 30) + text.slice(-30),
      );
  });

  it("may begin with a byte order mark, has names like any other, and is refused if it is not UTF-8", () => {
    assert.deepEqual(parse('\uFEFF{"a":1}'), { a: 1 });
    const value = parse(lengthened('{"__proto__":{"x":1},"b":["~"],"__proto__":{"y":2}}')) as object;
    assert.deepEqual(Object.keys(value), ["__proto__", "b"]);
    assert.deepEqual(Object.entries(value)[0], ["__proto__", { y: 2 }]);
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
    const bytes = Buffer.from(lengthened('["~","é"]'));
    bytes[bytes.length - 3] = 0x20;
    assert.throws(() => atOnce(jsonValue(bytes)), TypeError);
  });

  it("keeps the process from others for no longer than a slice, whatever it is made of", async () => {
    const many = Array.from({ length: 400_000 }, (_, i) => i);
    const texts = {
      numbers: JSON.stringify(many),
      objects: JSON.stringify(many.slice(0, 200_000).map((a) => ({ a }))),
      document: JSON.stringify({
        document: { rules: many.slice(0, 2_000).map((a) => ({ rule: [a, many.slice(0, 300)] })) },
      }),
      names: JSON.stringify(Object.fromEntries(many.slice(0, 10_000).map((a) => [`n${a}`, { a: [a] }]))),
      deep: `${"[1,".repeat(7)}${JSON.stringify(many.slice(0, 100_000))}${"]".repeat(7)}`,
    };
    for (const [kind, text] of Object.entries(texts)) {
      const bytes = Buffer.from(text);
      const tookMs = await leastBlockMs(() => inSlices(jsonValue(bytes)), BLOCK_MAX_MS);
      assert.ok(tookMs < BLOCK_MAX_MS, `${kind}: ${tookMs} ms`);
    }
  });
});
