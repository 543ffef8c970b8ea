import assert from "node:assert/strict";
import { z } from "zod";
import { firstProblem, problemsOf } from "../../src/domain/kernel/zod-problems.ts";
import { routes } from "../../src/http/routes.ts";
import { fieldsOf } from "../../src/http/validate.ts";
import { type Place, placesOf } from "../support/http/hostile.ts";

/** Sentences of zod's own, which tell a reader of JSON nothing to do. */
const OF_ZOD =
  /Invalid (?:input|option|string|number|key|value)|Unrecognized key|Too (?:big|small)|received /;
const VALUES: readonly unknown[] = [
  undefined,
  null,
  true,
  -1.5,
  1e300,
  "",
  "a b",
  [],
  [[]],
  {},
  { zz: 1 },
  { type: "zz" },
];

describe("the words of a refusal", () => {
  it("are Laurel's own for every operation, whatever stands at any place of its body", () => {
    const foreign = new Set<string>();
    const known = new Set<unknown>();
    const look = (id: string, body: z.ZodType, { name, wrap }: Place): void => {
      for (const value of VALUES) {
        const { error } = body.safeParse(wrap(value));
        const words = error ? problemsOf(error, "body").map(({ message }) => message) : [];
        for (const message of words.filter((text) => OF_ZOD.test(text)))
          foreign.add(`${id}${name}: ${message}`);
      }
    };
    for (const { id, body } of routes.filter((route) => route.body && !route.readBody)) {
      for (const place of placesOf(body)) {
        if (!known.has(place.schema)) look(id, body, place);
        known.add(place.schema);
      }
    }
    assert.ok(known.size > 500, `${known.size} places`);
    assert.deepEqual([...foreign], []);
  });

  it("never speak of NaN, which is what a text that is no number becomes in a path or a query", () => {
    const told: string[] = [];
    for (const { id, params, query } of routes) {
      for (const schema of [params, query].filter((part) => part !== undefined)) {
        for (const name of fieldsOf(schema)) {
          const { error } = schema.safeParse({ [name]: "abc" });
          const problems = error ? problemsOf(error, "query") : [];
          for (const { field, message } of problems.filter((one) => one.field === name))
            told.push(`${id} ${field}: ${message}`);
        }
      }
    }
    assert.deepEqual(
      told.filter((text) => text.includes("NaN")),
      [],
    );
    assert.ok(told.includes("editChatMessage seq: must be an integer"), told.join("\n"));
  });

  const wordsFor = (schema: z.ZodType, value: unknown): string => {
    const read = schema.safeParse(value);
    return read.success ? "" : firstProblem(read.error);
  };
  const text = z.string();
  const count = z.int();
  const size = z.object({ size: z.int().min(1).max(5) });
  for (const [schema, value, words] of [
    [z.object({ a: text }), {}, "a: is required"],
    [z.object({ a: text }), { a: null }, "a: must be a string, not null"],
    [z.object({ a: text }), [], "must be an object, not an array"],
    [count, 1.5, "must be an integer"],
    [count, "1", "must be a number, not a string"],
    [z.boolean(), "true", "must be true or false, not a string"],
    [z.number(), Number.NaN, "must be a number"],
    [z.number(), Number.POSITIVE_INFINITY, "must be a number, not Infinity"],
    [z.coerce.number(), "abc", "must be a number"],
    [z.coerce.number().int(), "abc", "must be an integer"],
    [z.coerce.number().int().min(1).max(5).optional(), "abc", "must be an integer"],
    [text.min(1), "", "must not be empty"],
    [text.max(3), "four", "must have at most 3 characters"],
    [text.length(1), "four", "must have exactly 1 character"],
    [z.array(text).min(2), [""], "must have at least 2 items"],
    [z.number().min(1), 0, "must be at least 1"],
    [z.number().positive(), 0, "must be more than 0"],
    [z.number().lt(3), 3, "must be less than 3"],
    [z.number().multipleOf(0.5), 0.7, "must be a multiple of 0.5"],
    [z.enum(["A", "B"]), "C", "must be one of A, B"],
    [z.object({ a: z.enum(["A", "B"]) }), {}, "a: is required: one of A, B"],
    [z.literal(7), 8, "must be 7"],
    [z.email(), "a", "must be an email address"],
    [z.iso.date(), "a", "must be a date of the form YYYY-MM-DD"],
    [text.startsWith("sv_"), "a", "must start with sv_"],
    [z.strictObject({ a: text, b: text.optional() }), { a: "", c: 1 }, "unknown field c; known: a, b"],
    [z.strictObject({}), { c: 1, d: 1 }, "unknown fields c, d"],
    [
      z.record(z.string().max(1), text),
      { ab: "" },
      "ab: has a name that is not permitted: must have at most 1 character",
    ],
    [z.union([text, count]), true, "must be a string or a number"],
    [z.union([text, size]), { size: 9 }, "size: must be at most 5"],
    [z.union([text, z.array(size)]), [{ size: 1 }, {}], "1.size: is required"],
    [z.discriminatedUnion("kind", [z.object({ kind: z.literal("a") })]), { kind: 1 }, "kind: must be a"],
    [z.custom(() => false), 1, "is not valid"],
  ] as const)
    it(`are "${words}" for ${JSON.stringify(value)}`, () => assert.equal(wordsFor(schema, value), words));

  it("name a few of many unknown fields, cut short, and say how many there are", () => {
    const long = "x".repeat(1_000);
    const names = Array.from({ length: 1_000 }, (_, i) => `${i}${long}`);
    const words = wordsFor(z.strictObject({ a: text }), {
      a: "",
      ...Object.fromEntries(names.map((n) => [n, 1])),
    });
    assert.match(words, /^unknown fields 0x+…, .* and 995 more; known: a$/);
    assert.ok(words.length < 500);
  });
});
