import assert from "node:assert/strict";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { compileSchema } from "../../src/domain/tracking/json-schema.ts";
import { cases } from "../support/properties.ts";

/** Few names and values, so that schemas and values often meet. */
const name = fc.constantFrom("a", "b", "c", "constructor");
const scalar = fc.oneof(
  fc.constantFrom(null, true, false, 0, 1, 2, 3, -1, 0.5, "", "a", "ab", "\u{1f600}", "1", "true"),
  // Eighths are exact: how near a quotient must be to a whole number is each validator's own choice.
  fc.integer().map((eighths) => eighths / 8),
  fc.string({ maxLength: 4, unit: "grapheme" }),
);

const objectOf = <T>(value: fc.Arbitrary<T>, minKeys = 0): fc.Arbitrary<object> =>
  fc
    .uniqueArray(fc.tuple(name, value), { minLength: minKeys, maxLength: 3, selector: ([key]) => key })
    .map((entries) => Object.fromEntries(entries));

const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    scalar,
    fc.array(tie("json"), { maxLength: 4 }),
    objectOf(tie("json")),
  ),
}));

const types = fc.constantFrom("null", "boolean", "object", "array", "number", "string", "integer");
const count = fc.nat({ max: 4 });
const bound = fc.constantFrom(-1, 0, 0.5, 1, 2, 3);
const names = fc.uniqueArray(name, { maxLength: 3 });

const divisor = fc.constantFrom(0.5, 1, 2, 4);

const { schema } = fc.letrec((tie) => {
  const inner = tie("schema");
  const schemas = fc.array(inner, { minLength: 1, maxLength: 3 });
  const keywords: Record<string, fc.Arbitrary<unknown>> = {
    type: fc.oneof(types, fc.uniqueArray(types, { minLength: 1, maxLength: 3 })),
    enum: fc.array(json, { minLength: 1, maxLength: 4 }),
    const: json,
    multipleOf: divisor,
    minimum: bound,
    maximum: bound,
    exclusiveMinimum: bound,
    exclusiveMaximum: bound,
    minLength: count,
    maxLength: count,
    minItems: count,
    maxItems: count,
    minProperties: count,
    maxProperties: count,
    uniqueItems: fc.boolean(),
    required: names,
    dependentRequired: objectOf(names),
    allOf: schemas,
    anyOf: schemas,
    oneOf: schemas,
    not: inner,
    ...Object.fromEntries(["if", "then", "else"].map((keyword) => [keyword, inner])),
    properties: objectOf(inner),
    dependentSchemas: objectOf(inner),
    additionalProperties: inner,
    propertyNames: inner,
    prefixItems: schemas,
    items: inner,
    contains: inner,
    minContains: count,
    maxContains: count,
  };
  return {
    schema: fc.oneof(
      { maxDepth: 3, depthSize: "small" },
      fc.boolean(),
      fc
        .uniqueArray(fc.constantFrom(...Object.keys(keywords)), { maxLength: 4 })
        // Beside prefixItems Ajv takes an empty list for one that contains something.
        .filter((chosen) => !(chosen.includes("contains") && chosen.includes("prefixItems")))
        .chain((chosen) =>
          fc.record(Object.fromEntries(chosen.map((keyword) => [keyword, keywords[keyword]!]))),
        ),
    ),
  };
});

const OPTIONS = { strict: false, ownProperties: true, validateSchema: false, meta: false } as const;

describe("JSON Schema beside Ajv", () => {
  it("tells multiples of large numbers as exactly as they are written", () => {
    const accepts = (multipleOf: number, value: number): boolean => {
      const compiled = compileSchema({ multipleOf });
      return "validate" in compiled && compiled.validate(value).length === 0;
    };
    assert.deepEqual([accepts(1, 2e9), accepts(0.01, 19.99), accepts(0.1, 1e9 + 0.1)], [true, true, true]);
    assert.deepEqual([accepts(1, 2e9 + 0.5), accepts(0.5, 1e13 + 0.25)], [false, false]);
    assert.deepEqual([accepts(1, 7e14 + 0.5), accepts(0.25, 7e14 + 0.125)], [false, false]);
    assert.deepEqual([accepts(1e-300, 1e300), accepts(1e300, 1e-300)], [true, false]);
  });

  it("accepts what Ajv accepts and refuses what it refuses, for any schema and any value", () => {
    fc.assert(
      fc.property(schema, fc.array(json, { minLength: 1, maxLength: 8 }), (document, values) => {
        const compiled = compileSchema(document);
        if ("problems" in compiled) return assert.fail(JSON.stringify(compiled.problems));
        const check = new Ajv2020(OPTIONS).compile(document as object);
        for (const value of values) {
          const failures = compiled.validate(value);
          assert.equal(
            failures.length === 0,
            check(value),
            `${JSON.stringify(value)}: ${JSON.stringify(failures)}`,
          );
        }
      }),
      { numRuns: cases(200) },
    );
  });
});
