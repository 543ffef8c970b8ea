import assert from "node:assert/strict";
import * as fc from "fast-check";
import { SHOWN_JSON_MAX, SHOWN_TEXT_MAX, showValue } from "../../src/domain/evaluation/language/groups.ts";
import { cases } from "../support/properties.ts";

/** A value that counts how often a part of it is read. */
const counted = <T extends object>(value: T): { value: T; reads: () => number } => {
  let reads = 0;
  const get = (target: T, name: string | symbol): unknown => {
    reads++;
    return Reflect.get(target, name);
  };
  return { value: new Proxy(value, { get }), reads: () => reads };
};

describe("values in explanations", () => {
  it("are themselves while they are short, and begin as their JSON does when they are long", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const json = JSON.stringify(value);
        const [whole, max] = typeof value === "string" ? [value, SHOWN_TEXT_MAX] : [json, SHOWN_JSON_MAX];
        if (whole.length <= max) assert.equal(showValue(value), value);
        else assert.equal(showValue(value), `${whole.slice(0, max).toWellFormed()}…`);
      }),
      { numRuns: cases(500) },
    );
    assert.deepEqual(showValue({ a: undefined, b: 1 }), { a: undefined, b: 1 });
    const seen = { date: "2026-01-10", time: "18:00", dayOfWeek: 6, zone: "America/Argentina/Buenos_Aires" };
    assert.equal(showValue(seen), seen);
  });

  it("are read no further than they are shown", () => {
    const list = counted(Array.from({ length: 8_000 }, (_, i) => i % 10));
    assert.equal(showValue(list.value), `[${"0,1,2,3,4,5,6,7,8,9,".repeat(7).slice(0, SHOWN_JSON_MAX - 1)}…`);
    assert(list.reads() < 1_000, `${list.reads()} reads`);
    const object = counted(Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`n${i}`, i])));
    showValue(object.value);
    assert(object.reads() < 1_000, `${object.reads()} reads`);
  });
});
