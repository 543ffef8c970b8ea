import assert from "node:assert/strict";
import type { z } from "zod";
import { BODY_PARTS_MAX, LARGE_BODY_PARTS_MAX } from "../../src/domain/kernel/limits.ts";
import { refuseHostile } from "../../src/domain/kernel/hostile-json.ts";
import { countParts } from "../../src/http/body.ts";
import { routes } from "../../src/http/routes.ts";
import { CPU_SLACK, leastCpuMs } from "../support/cpu.ts";
import { hostileTexts, hostileValues } from "../support/http/hostile-json.ts";
import { bareSchema, placesOf } from "../support/http/schema-places.ts";

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;
const LARGE_BYTES = 5 * 1024 * 1024;

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
