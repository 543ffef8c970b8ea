import assert from "node:assert/strict";
import type { z } from "zod";
import { readConfigDocument } from "../../src/domain/registries/configuration/diff.ts";
import { BODY_PARTS_MAX, LARGE_BODY_PARTS_MAX } from "../../src/domain/kernel/limits.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { findOversize, parseSized } from "../../src/domain/kernel/oversize.ts";
import { readSimulation } from "../../src/domain/rules/insight/simulate.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { refuseHostile } from "../../src/domain/kernel/hostile-json.ts";
import { fingerprintOf } from "../../src/http/idempotency.ts";
import { countParts } from "../../src/http/json-parse.ts";
import { routes } from "../../src/http/routes.ts";
import { CPU_SLACK, leastBlockMs, leastCpuMs } from "../support/cpu.ts";
import { hostileTexts, hostileValues } from "../support/http/hostile-json.ts";
import { bareSchema, placesOf } from "../support/http/schema-places.ts";

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;
const LARGE_BYTES = 5 * 1024 * 1024;

const partsOf = (text: string): number => countParts(Buffer.from(text), LARGE_BODY_PARTS_MAX).parts;

const values = hostileValues(BODY_PARTS_MAX - 1_000);

const readWith = (schema: z.ZodType, body: unknown): void => {
  if (!findOversize(schema, body)) schema.safeParse(body);
};

describe("CPU of reading a request", () => {
  it("is bounded for every operation, whatever stands at any place of its body", () => {
    const known = new Set<unknown>();
    const slow: string[] = [];
    for (const { id, body } of routes.filter((route) => route.body && !route.readBody)) {
      for (const { name, schema, wrap } of placesOf(body)) {
        // What several operations share is looked at in the first of them.
        if (known.has(schema)) continue;
        known.add(schema);
        for (const [kind, value] of Object.entries(values)) {
          const whole = wrap(value);
          const tookMs = leastCpuMs(() => readWith(body, whole), BLOCK_MAX_MS);
          if (tookMs >= BLOCK_MAX_MS) slow.push(`${id}${name}: ${kind} took ${tookMs} ms`);
        }
      }
    }
    assert(known.size > 500, `${known.size} places`);
    assert.deepEqual(slow, []);
  });

  it("is taken in turns where a body is told apart by its content", async () => {
    const parts = Array.from({ length: LARGE_BODY_PARTS_MAX }, (_, i) => i);
    const wide = Object.fromEntries(parts.slice(0, BODY_PARTS_MAX).map((i) => [`name ${i}`, i]));
    const lists = { items: parts.slice(0, LARGE_BODY_PARTS_MAX / 5).map((i) => ({ b: i, a: [i, "c"] })) };
    for (const body of [parts, wide, lists]) {
      const tookMs = await leastBlockMs(() => fingerprintOf({ body }), BLOCK_MAX_MS);
      assert(tookMs < BLOCK_MAX_MS, `${tookMs} ms`);
    }
    const [one, other] = [
      { body: { a: [1], b: { c: 1, d: null } } },
      { body: { b: { d: null, c: 1 }, a: [1] } },
    ];
    assert.equal(await fingerprintOf(one), await fingerprintOf(other));
    assert.notEqual(await fingerprintOf({ body: [[1], 2] }), await fingerprintOf({ body: [1, [2]] }));
  });

  it("is bounded for the largest rules, and for one that is too large", async () => {
    const base = { key: "r", name: "Rule", triggers: [{ kind: "EVENT", eventTypes: ["a"] }] };
    const times = <T>(count: number, make: (i: number) => T): T[] =>
      Array.from({ length: count }, (_, i) => make(i));
    const leaf = (i: number, of: number) => {
      return { type: "event_property", path: `p${i}`, op: "in", value: times(of, (j) => j) };
    };
    const emit = (of: number, value: unknown) => {
      const properties = Object.fromEntries(times(of, (i) => [`p${i}`, value]));
      return { type: "emit_event", eventType: "b", channels: ["rules"], properties };
    };
    const large: Json[] = [
      { ...base, conditions: { all: times(50, (i) => leaf(i, 150)) }, actions: [emit(1, 1)] },
      { ...base, actions: times(20, () => emit(50, { $ref: "event.properties.a" })) },
      { ...base, actions: times(20, () => emit(50, [1, 2, 3, 4])) },
      { ...base, actions: times(20, () => emit(50, "x".repeat(900))) },
    ];
    for (const rule of large) {
      const tookMs = leastCpuMs(() => parseSized(RuleDocument, rule), BLOCK_MAX_MS);
      assert(tookMs < BLOCK_MAX_MS, `${tookMs} ms`);
    }
    assert.deepEqual(
      large.map((rule) => parseSized(RuleDocument, rule).success),
      [true, false, true, false],
    );
    const inline = times(20, (i) => ({ ...large[0], key: `r${i}` }));
    const simulation = { event: { eventType: "a" }, player: { snapshot: {} }, inline };
    assert.equal((await readSimulation(simulation)).inline.length, 20);
    const blockMs = await leastBlockMs(() => readSimulation(simulation), BLOCK_MAX_MS);
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
  });

  it("has a bound of items for every list that it takes", () => {
    const unbounded: string[] = [];
    for (const { id, body, itemised } of routes.filter((route) => route.body)) {
      for (const { name, schema } of placesOf(body)) {
        if (bareSchema(schema)._zod.def.type !== "array" || itemised) continue;
        const bounds = ["max_length", "length_equals"];
        const checks = bareSchema(schema)._zod.def.checks ?? [];
        if (!checks.some(({ _zod }) => bounds.includes(_zod.def.check))) unbounded.push(id + name);
      }
    }
    assert.deepEqual(unbounded, []);
  });

  it("is bounded for every JSON of the largest body, which is counted before it is parsed", () => {
    for (const [kind, text] of Object.entries(hostileTexts(LARGE_BYTES))) {
      const bytes = Buffer.from(text);
      const read = (): void => {
        if (countParts(bytes, LARGE_BODY_PARTS_MAX).parts > LARGE_BODY_PARTS_MAX) return;
        JSON.parse(text);
      };
      assert(leastCpuMs(read, BLOCK_MAX_MS) < BLOCK_MAX_MS, kind);
    }
    // As many names and values as a body may have.
    for (const [kind, text] of Object.entries(hostileTexts(LARGE_BODY_PARTS_MAX * 3))) {
      if (partsOf(text) > LARGE_BODY_PARTS_MAX) continue;
      if (kind === "brackets") continue;
      assert(leastCpuMs(() => JSON.parse(text), BLOCK_MAX_MS) < BLOCK_MAX_MS, kind);
      const value: unknown = JSON.parse(text);
      const refuse = (): void => {
        try {
          refuseHostile("", value);
        } catch {
          // That it is refused is the business of other tests.
        }
      };
      assert(leastCpuMs(refuse, BLOCK_MAX_MS) < BLOCK_MAX_MS, kind);
    }
  });

  it("of a configuration of thousands of definitions is done in slices", async () => {
    const condition = { type: "player_property", field: "xp", op: "gt", value: 1 };
    const definition = { all: Array.from({ length: 5 }, () => condition) };
    const segments = Array.from({ length: 2_000 }, (_, i) => {
      return { key: `s${i}`, name: "Segment", kind: "DYNAMIC", definition };
    });
    const document = { format: "laurel/1", segments };
    assert.equal((await readConfigDocument(document))["format"], "laurel/1");
    const blockMs = await leastBlockMs(() => readConfigDocument(document), BLOCK_MAX_MS);
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
    const wrong = { format: "laurel/1", segments: segments.map((one) => ({ ...one, name: 1 })) };
    const refused = () => readConfigDocument(wrong).catch(() => undefined);
    assert((await leastBlockMs(refused, BLOCK_MAX_MS)) < BLOCK_MAX_MS);
  });
});
