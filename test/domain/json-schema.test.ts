import assert from "node:assert/strict";
import fc from "fast-check";
import { compileSchema, SCHEMA_MAX_PARTS } from "../../src/domain/tracking/json-schema.ts";

const problemsOf = (schema: unknown): string[] => {
  const compiled = compileSchema(schema);
  return "problems" in compiled ? compiled.problems.map(({ path, message }) => `${path}: ${message}`) : [];
};
const failuresOf = (schema: unknown, value: unknown): string[] => {
  const compiled = compileSchema(schema);
  if ("problems" in compiled) return assert.fail(JSON.stringify(compiled.problems));
  return compiled.validate(value).map(({ path, message }) => `${path}: ${message}`);
};

describe("JSON Schema for events", () => {
  it("names what does not fit by its path, several at once", () => {
    const schema = {
      type: "object",
      required: ["id", "items"],
      properties: {
        id: { type: "string", minLength: 3 },
        items: {
          type: "array",
          items: { type: "object", properties: { price: { type: "number", exclusiveMinimum: 0 } } },
        },
        coupon: { enum: ["A", "B"] },
      },
      additionalProperties: false,
    };
    assert.deepEqual(failuresOf(schema, { id: "abc", items: [{ price: 1 }], coupon: "A" }), []);
    assert.deepEqual(
      failuresOf(schema, { id: "a", items: [{ price: 1 }, { price: 0 }], coupon: "C", more: 1 }),
      [
        "id: is too short (1 < 3)",
        "items.1.price: is not more than 0",
        'coupon: does not match any of ["A","B"]',
        "more: is not allowed",
      ],
    );
    assert.deepEqual(failuresOf(schema, {}), [": must have id", ": must have items"]);
    assert.deepEqual(failuresOf(schema, []), [": must be object"]);
  });

  it("follows a schema that holds itself as deep as the value goes", () => {
    const tree = { properties: { value: { type: "number" }, next: { $ref: "#" } }, required: ["value"] };
    assert.deepEqual(failuresOf(tree, { value: 1, next: { value: 2, next: { value: 3 } } }), []);
    assert.deepEqual(failuresOf(tree, { value: 1, next: { value: 2, next: {} } }), [
      "next.next: must have value",
    ]);
  });

  it("refuses what could hold ingestion up or leave the server, by name", () => {
    const refused: [schema: unknown, problem: RegExp][] = [
      [{ pattern: "^(a+)+$" }, /^pattern: is not available: a regular expression/],
      [{ properties: { a: { pattern: "x" } } }, /^properties\.a\.pattern: is not available/],
      [{ patternProperties: { "^(a+)+$": true } }, /^patternProperties: is not available/],
      [{ unevaluatedProperties: false }, /^unevaluatedProperties: is not available/],
      [{ $ref: "https://evil.example/schema" }, /^\$ref: must lead to a part of this schema/],
      [{ $ref: "file:///etc/passwd" }, /^\$ref: must lead/],
      [{ $ref: "#/$defs/none" }, /^\$ref: must lead/],
      [{ $ref: "#/__proto__" }, /^\$ref: must lead/],
      [{ $ref: "#/constructor" }, /^\$ref: must lead/],
      [{ $dynamicRef: "#a" }, /^\$dynamicRef: is not a supported keyword/],
      [{ $id: "https://a.example" }, /^\$id: is not a supported keyword/],
      [{ $schema: "http://json-schema.org/draft-07/schema#" }, /^\$schema: does not match "https/],
      [{ minimun: 3 }, /^minimun: is not a supported keyword/],
      [{ toString: 1 }, /^toString: is not a supported keyword/],
      [{ type: "strnig" }, /^type: does not match any of/],
      [{ required: "a" }, /^required: must be array/],
      [{ minLength: -1 }, /^minLength: is less than 0/],
      [{ items: [true] }, /^items: must be object or boolean/],
      [{ properties: { a: { not: { pattern: "a" } } } }, /^properties\.a\.not\.pattern: is not available/],
      [{ contains: { foo: 1 } }, /^contains\.foo: is not a supported keyword/],
      [{ propertyNames: null }, /^propertyNames: must be object or boolean/],
      [{ anyOf: [{ oneOf: [{ type: "strnig" }] }] }, /^anyOf\.0\.oneOf\.0\.type: does not match any of/],
      [[], /^: must be a schema/],
    ];
    for (const [schema, problem] of refused) assert.match(problemsOf(schema).join("; "), problem);
    const many = Object.fromEntries(Array.from({ length: SCHEMA_MAX_PARTS }, (_, i) => [`p${i}`, {}]));
    assert.match(problemsOf({ properties: many }).join(), /holds more than 500 schemas/);
  });

  it("says what does not fit in plain words, whatever the keyword", () => {
    const told: [schema: unknown, value: unknown, message: string][] = [
      [{ type: ["string", "null"] }, 1, "must be string or null"],
      [{ const: { a: 1 } }, 1, 'does not match {"a":1}'],
      [{ minimum: 3 }, 2, "is less than 3"],
      [{ exclusiveMaximum: 3 }, 3, "is greater than or equal to 3"],
      [{ multipleOf: 0.5 }, -0.25, "is not a multiple of 0.5"],
      [{ maxItems: 1 }, [1, 2], "has too many items (2 > 1)"],
      [{ anyOf: [{ type: "string" }, { type: "null" }] }, 1, "does not match any subschemas"],
      [{ allOf: [{ type: "string" }] }, 1, "must be string"],
      [{ dependentRequired: { a: ["b"] } }, { a: 1 }, 'has "a" but does not have "b"'],
    ];
    for (const [schema, value, message] of told)
      assert.deepEqual(failuresOf(schema, value), [`: ${message}`]);
    assert.deepEqual(failuresOf({ const: { format: "x" }, format: "email" }, { format: "x" }), []);
  });

  it("tells properties that are called like keywords from keywords", () => {
    const not = { properties: { not: { properties: { anyOf: { type: "string" } } } } };
    assert.deepEqual(failuresOf(not, { not: { anyOf: 5 } }), ["not.anyOf: must be string"]);
    const contains = { properties: { contains: { additionalProperties: false } } };
    assert.deepEqual(failuresOf(contains, { contains: { x: 5 } }), ["contains.x: is not allowed"]);
  });

  it("ends schemas that would take for ever, and says that they did", () => {
    assert.match(failuresOf({ $ref: "#" }, 1).join(), /cannot be checked: too many references/);
    // Each doubles the work of the one before: 2^40 checks without a bound.
    const bomb = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [
        `d${i}`,
        i === 0 ? { const: 1 } : { anyOf: [{ $ref: `#/$defs/d${i - 1}` }, { $ref: `#/$defs/d${i - 1}` }] },
      ]),
    );
    const compiled = compileSchema({ $ref: "#/$defs/d39", $defs: bomb });
    if ("problems" in compiled) return assert.fail();
    const time = { leftMs: 20 };
    for (let i = 0; i < 2; i++)
      assert.match(compiled.validate(2, time)[0]!.message, /^cannot be checked: the schemas take more than/);
    assert.ok(time.leftMs <= 0, "no check is made beyond the time of its request");
    // Each part compares each item with all others.
    const unique = compileSchema({ allOf: Array.from({ length: 40 }, () => ({ uniqueItems: true })) });
    if ("problems" in unique) return assert.fail();
    const items = Array.from({ length: 1_500 }, (_, i) => ({ a: i }));
    assert.match(unique.validate(items, { leftMs: 20 })[0]!.message, /^cannot be checked: the schemas take/);
  });

  it("never throws, whatever is given as a schema or as a value", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (schema, value) => {
        const compiled = compileSchema(schema);
        if ("validate" in compiled) compiled.validate(value);
      }),
    );
    const names = [
      "type",
      "items",
      "properties",
      "allOf",
      "$ref",
      "enum",
      "contains",
      "if",
      "minItems",
      "$defs",
    ];
    const keyword = fc.dictionary(fc.constantFrom(...names), fc.jsonValue(), { maxKeys: 4 });
    fc.assert(
      fc.property(keyword, fc.jsonValue(), (schema, value) => {
        const compiled = compileSchema(schema);
        if ("validate" in compiled) compiled.validate(value);
      }),
    );
  });
});
