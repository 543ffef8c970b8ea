import assert from "node:assert/strict";
import fc from "fast-check";
import { StepBudget } from "../../src/domain/kernel/pace.ts";
import { compileSchema, SCHEMA_MAX_PARTS } from "../../src/domain/tracking/json-schema/schema.ts";

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
        "id: must have at least 3 characters",
        "items.1.price: must be more than 0",
        'coupon: must be one of "A", "B"',
        ": must not have more",
      ],
    );
    assert.deepEqual(failuresOf(schema, {}), [": must have id"]);
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
      [{ $schema: "http://json-schema.org/draft-07/schema#" }, /^\$schema: must be https/],
      [{ minimun: 3 }, /^minimun: is not a supported keyword/],
      [{ toString: 1 }, /^toString: is not a supported keyword/],
      [{ type: "strnig" }, /^type: must be one or more of/],
      [{ required: "a" }, /^required: must be a list of names/],
      [{ minLength: -1 }, /^minLength: must be a whole number/],
      [{ items: [true] }, /^items: must be a schema/],
      [[], /^: must be a schema/],
    ];
    for (const [schema, problem] of refused) assert.match(problemsOf(schema).join("; "), problem);
    const many = Object.fromEntries(Array.from({ length: SCHEMA_MAX_PARTS }, (_, i) => [`p${i}`, {}]));
    assert.match(problemsOf({ properties: many }).join(), /holds more than 500 schemas/);
  });

  it("ends schemas that would take for ever, and says that they did", () => {
    // Each doubles the work of the one before: 2^40 checks without a bound.
    const bomb = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [
        `d${i}`,
        i === 0 ? { const: 1 } : { anyOf: [{ $ref: `#/$defs/d${i - 1}` }, { $ref: `#/$defs/d${i - 1}` }] },
      ]),
    );
    const hostile: [schema: unknown, value: unknown][] = [
      [{ $ref: "#" }, 1],
      [{ $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } }, 1],
      [{ not: { $ref: "#" } }, 1],
      [{ $ref: "#/$defs/d39", $defs: bomb }, 2],
      [
        { items: { anyOf: Array.from({ length: 400 }, () => ({ const: 1 })) } },
        Array.from({ length: 8_000 }),
      ],
      [
        { items: { uniqueItems: true } },
        Array.from({ length: 60 }, () => Array.from({ length: 1_000 }, (_, i) => i)),
      ],
    ];
    for (const [schema, value] of hostile) {
      const failures = failuresOf(schema, value);
      assert.match(failures.join(), /^: cannot be checked: the schema (takes|follows) more than/);
    }
  });

  it("is charged to what all checks of a request share, and none is made beyond", () => {
    const compiled = compileSchema({ enum: [[1]] });
    if ("problems" in compiled) return assert.fail();
    const shared = new StepBudget(1_000);
    assert.match(compiled.validate([2], shared)[0]!.message, /^must be one of/);
    const [once] = [shared.spent];
    assert(once > 0 && once < 10, `${once} steps`);
    const long = Array.from({ length: 2_000 }, () => 1);
    const message = /^cannot be checked: the schemas take more than 5000000 steps for the events of this/;
    assert.match(compiled.validate(long, shared)[0]!.message, message);
    assert.match(compiled.validate([1], shared)[0]!.message, message);
    assert.equal(shared.spent, shared.max);
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
