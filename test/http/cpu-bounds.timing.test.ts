import assert from "node:assert/strict";
import type { z } from "zod";
import { BODY_PARTS_MAX, LARGE_BODY_PARTS_MAX } from "../../src/domain/kernel/limits.ts";
import { refuseHostile } from "../../src/domain/kernel/hostile-json.ts";
import { countParts } from "../../src/http/body.ts";
import { routes } from "../../src/http/routes.ts";
import { CPU_SLACK, leastCpuMs } from "../support/cpu.ts";
import { bareSchema, placesOf } from "../support/http/hostile.ts";

/** Values and JSON texts that are dear to read for their size, each of a given number of names and values. */

const times = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));
const named = (count: number): Record<string, number> =>
  Object.fromEntries(times(count, (i) => [`k${i.toString(36)}`, i]));

/** An expression of `width` arguments at each of `depth` levels, whose ends are no numbers. */
const expressionOf = (width: number, depth: number): unknown =>
  depth === 0 ? "x" : { op: "add", args: times(width, () => expressionOf(width, depth - 1)) };

const conditionsOf = (depth: number): unknown =>
  depth === 0
    ? { type: "event_property", path: "a", op: "in", value: times(20, (i) => i) }
    : { all: times(8, () => conditionsOf(depth - 1)) };

/** By what they are made of. */
const hostileValues = (parts: number): Record<string, unknown> => ({
  numbers: times(parts, () => 0),
  objects: times(parts / 2, () => ({})),
  pairs: times(parts / 3, (i) => ({ a: i })),
  names: named(parts / 2),
  conditions: times(parts / 3, () => ({ type: "event_property" })),
  expression: expressionOf(8, 5),
  tree: conditionsOf(4),
  text: "a-".repeat(500_000),
});

/** Texts of `bytes` bytes; the parser is slow for some of them. */
const hostileTexts = (bytes: number): Record<string, string> => {
  const filled = (piece: string): string => piece.repeat(Math.floor((bytes - 8) / piece.length));
  const distinct = (make: (name: string) => string): string => {
    const pieces: string[] = [];
    for (let length = 0, i = 0; length < bytes - 30; i++) {
      const piece = make(i.toString(36));
      pieces.push(piece);
      length += piece.length + 1;
    }
    return pieces.join();
  };
  return {
    brackets: filled("["),
    "empty lists": `[${filled("[],")}0]`,
    "empty objects": `[${filled("{},")}0]`,
    "equal names": `{${filled('"a":0,')}"a":0}`,
    names: `{${distinct((name) => `"${name}":0`)}}`,
    shapes: `[${distinct((name) => `{"${name}":0}`)}]`,
    texts: `[${distinct((name) => `"${name}"`)}]`,
    "a long number": `[${filled("1")}]`,
    "long numbers": `[${filled("1.2345678901234567e-300,")}0]`,
    escapes: `"${filled(String.raw`\u0000`)}"`,
    "escaped texts": `[${filled(String.raw`"\u1234",`)}0]`,
  };
};

const LARGE_BYTES = 5 * 1024 * 1024;

/**
 * CPU that a process may spend on one caller before others are served: some 100 to 150 ms, as a multiple of
 * parsing as many small objects as a body may have, so that it is the same on a slow machine.
 */
const { shapes = "" } = hostileTexts(LARGE_BODY_PARTS_MAX * 3);
const BLOCK_MAX_MS = 3.5 * CPU_SLACK * leastCpuMs(() => JSON.parse(shapes) as unknown, 0);

const partsOf = (text: string): number => countParts(Buffer.from(text), LARGE_BODY_PARTS_MAX).parts;

const values = hostileValues(BODY_PARTS_MAX - 1_000);

const readWith = (schema: z.ZodType, body: unknown): void => {
  schema.safeParse(body);
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
});
