import assert from "node:assert/strict";
import * as fc from "fast-check";
import {
  explainGroup,
  compileGroup,
  type ConditionNode,
  conditionProblems,
} from "../../src/domain/rules/groups.ts";
import { compileComparison, OPERATOR_NAMES, type OperatorName } from "../../src/domain/rules/operators.ts";
import { compareText, compileGlob, parseDuration, parseTime } from "../../src/domain/rules/text.ts";
import { aPlayer, aTurn, NOW } from "../support/rules.ts";

type Value = string | number | boolean | null | Value[] | undefined;

const codePoints = (text: string): number[] => [...text].map((character) => character.codePointAt(0)!);
const before = (a: Value, b: Value): boolean | undefined => {
  if (typeof a === "number" && typeof b === "number") return a < b;
  if (typeof a !== "string" || typeof b !== "string") return undefined;
  const [left, right] = [codePoints(a), codePoints(b)];
  const at = left.findIndex((point, i) => point !== right[i]);
  return at === -1 ? left.length < right.length : at < right.length && left[at]! < right[at]!;
};
const escaped = (c: string): string => `\\u{${c.codePointAt(0)!.toString(16)}}`;
const globAsRegExp = (glob: string): RegExp => {
  const parts = [...glob].map((c) => ({ "*": ".*", "?": "." })[c] ?? escaped(c));
  return new RegExp(`^${parts.join("")}$`, "su");
};
const has = (list: Value, item: Value): boolean => Array.isArray(list) && list.some((each) => each === item);

/** The operators in the plainest words there are, without regard to speed. */
const says: Record<OperatorName, (actual: Value, operand: Value) => boolean> = {
  eq: (a, b) => a !== undefined && a === b,
  neq: (a, b) => !says.eq(a, b),
  gt: (a, b) => before(b, a) === true,
  gte: (a, b) => before(a, b) === false,
  lt: (a, b) => before(a, b) === true,
  lte: (a, b) => before(b, a) === false,
  between: (a, b) => says.gte(a, (b as Value[])[0]) && says.lte(a, (b as Value[])[1]),
  in: (a, b) => a !== undefined && has(b, a),
  not_in: (a, b) => !says.in(a, b),
  contains: (a, b) => (typeof a === "string" && typeof b === "string" ? a.includes(b) : has(a, b)),
  not_contains: (a, b) => !says.contains(a, b),
  contains_any: (a, b) => (b as Value[]).some((item) => has(a, item)),
  contains_all: (a, b) => (b as Value[]).every((item) => has(a, item)),
  starts_with: (a, b) => typeof a === "string" && a.indexOf(b as string) === 0,
  ends_with: (a, b) => typeof a === "string" && a.slice(Math.max(0, a.length - (b as string).length)) === b,
  glob: (a, b) => typeof a === "string" && globAsRegExp(b as string).test(a),
  exists: (a) => a !== undefined,
  not_exists: (a) => a === undefined,
  before: (a, b) =>
    typeof a === "string" && parseTime(a) !== undefined && Date.parse(a) < Date.parse(b as string),
  after: (a, b) =>
    typeof a === "string" && parseTime(a) !== undefined && Date.parse(a) > Date.parse(b as string),
  within_last: (a, b) =>
    typeof a === "string" &&
    parseTime(a) !== undefined &&
    Date.parse(a) <= NOW &&
    NOW - Date.parse(a) <= parseDuration(b)!,
  older_than: (a, b) =>
    typeof a === "string" && parseTime(a) !== undefined && NOW - Date.parse(a) > parseDuration(b)!,
};

const word = fc.string({
  unit: fc.constantFrom("a", "b", "A", "*", "?", ".", "\u{1F600}", "\uFFFD"),
  maxLength: 4,
});
const time = fc.constantFrom(
  "2026-06-15",
  "2026-06-15T12:00:00Z",
  "2026-06-14T12:00:00+02:00",
  "2026-06-08T12:00:00Z",
  "2026-06-15T12:00:00.001Z",
);
const scalar: fc.Arbitrary<string | number | boolean | null> = fc.oneof(
  word,
  time,
  fc.integer({ min: -3, max: 3 }),
  fc.constantFrom(0.5, -0, true, false, null),
);
const list = fc.array(scalar, { minLength: 1, maxLength: 4 });
const actual = fc.oneof<fc.Arbitrary<Value>[]>(scalar, list, fc.constant(undefined), fc.constant([]));
const orderable = fc.oneof(word, fc.integer({ min: -3, max: 3 }));
const range = fc.oneof(
  fc.tuple(fc.integer({ min: -3, max: 0 }), fc.integer({ min: 0, max: 3 })),
  word.map((low) => [low, `${low}b`]),
);

const OPERANDS: Record<OperatorName, fc.Arbitrary<unknown>> = {
  eq: scalar,
  neq: scalar,
  gt: orderable,
  gte: orderable,
  lt: orderable,
  lte: orderable,
  between: range,
  in: list,
  not_in: list,
  contains: scalar,
  not_contains: scalar,
  contains_any: list,
  contains_all: list,
  starts_with: word,
  ends_with: word,
  glob: word,
  exists: fc.constant(undefined),
  not_exists: fc.constant(undefined),
  before: time,
  after: time,
  within_last: fc.constantFrom("P7D", "PT24H", "PT0S", "P1WT1M"),
  older_than: fc.constantFrom("P7D", "PT24H"),
};
const comparison = fc
  .constantFrom(...OPERATOR_NAMES)
  .chain((op) => OPERANDS[op].map((value) => ({ op, ...(value === undefined ? {} : { value }) })));

const leaf = fc.oneof(
  comparison.map((part) => ({ type: "event_property", path: "p", ...part })),
  comparison.map((part) => ({ type: "player_property", field: "attributes.q", ...part })),
  fc
    .constantFrom(
      ...OPERATOR_NAMES.filter((op) =>
        ["eq", "neq", "gt", "lte", "contains", "starts_with", "before"].includes(op),
      ),
    )
    .map((op) => ({ type: "event_property", path: "p", op, value: { $ref: "player.attributes.q" } })),
  fc.constantFrom(
    { type: "time_window", daysOfWeek: [1, 2], timezone: "UTC", clock: "EVENT" },
    { type: "time_window", between: { from: "22:00", to: "06:00" }, timezone: "PLAYER", clock: "NOW" },
  ),
);
const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaf,
    fc.array(tie("tree"), { maxLength: 3 }).map((all) => ({ all })),
    fc.array(tie("tree"), { minLength: 1, maxLength: 3 }).map((any) => ({ any })),
    fc.array(tie("tree"), { minLength: 1, maxLength: 3 }).map((none) => ({ none })),
  ),
}));

describe("rule conditions", () => {
  it("compare as the plain words of their operators say, for any pair of values", () => {
    fc.assert(
      fc.property(comparison, actual, (part, value) => {
        const holds = compileComparison(part as never)(value, aTurn());
        assert.equal(
          holds,
          says[part.op](value, part.value as Value),
          `${JSON.stringify(value)} ${JSON.stringify(part)}`,
        );
      }),
      { numRuns: 5_000 },
    );
  });

  it("are false on missing data, but for the four negations", () => {
    const trueOnMissing = OPERATOR_NAMES.filter((op) => {
      const [value] = fc.sample(OPERANDS[op], 1);
      return compileComparison({ op, ...(value === undefined ? {} : { value }) } as never)(
        undefined,
        aTurn(),
      );
    });
    assert.deepEqual(trueOnMissing, ["neq", "not_in", "not_contains", "not_exists"]);
    for (const op of ["eq", "gt", "contains", "starts_with", "before", "within_last"] as const) {
      const reference = { op, value: { $ref: "event.properties.none" } };
      assert.equal(compileComparison(reference)("x", aTurn()), false, `${op} with a missing reference`);
    }
  });

  it("decide the same compiled and traced, for any tree, event and player", () => {
    fc.assert(
      fc.property(tree, actual, actual, fc.integer({ min: 0, max: 200 }), (node, p, q, hours) => {
        const properties = p === undefined ? {} : { p };
        const player = aPlayer({ attributes: q === undefined ? {} : { q }, timezone: "America/New_York" });
        const turn = aTurn({ player, properties, at: NOW - hours * 3_600_000 });
        const condition = node as ConditionNode;
        const trace = explainGroup(condition, turn);
        assert.equal(compileGroup(condition)(turn), trace.pass);
      }),
      { numRuns: 2_000 },
    );
  });

  it("show every leaf in a trace, also those that decide nothing", () => {
    const none = { type: "event_property", path: "x.y", op: "eq", value: 1 };
    const level = {
      type: "player_property",
      field: "level",
      op: "gte",
      value: { $ref: "event.properties.need" },
    };
    const node = { all: [none, { any: [level, none] }] };
    assert.deepEqual(conditionProblems(node), []);
    assert.deepEqual(explainGroup(node as ConditionNode, aTurn({ properties: { need: 1, x: { y: 2 } } })), {
      path: "conditions",
      type: "all",
      pass: false,
      children: [
        { path: "conditions.all[0]", type: "event_property", op: "eq", expected: 1, actual: 2, pass: false },
        {
          path: "conditions.all[1]",
          type: "any",
          pass: true,
          children: [
            {
              path: "conditions.all[1].any[0]",
              type: "player_property",
              op: "gte",
              expected: 1,
              actual: 1,
              pass: true,
            },
            {
              path: "conditions.all[1].any[1]",
              type: "event_property",
              op: "eq",
              expected: 1,
              actual: 2,
              pass: false,
            },
          ],
        },
      ],
    });
  });

  it("see own properties only", () => {
    const exists = (path: string, properties: object): boolean =>
      compileGroup({ all: [{ type: "event_property", path, op: "exists" }] })(
        aTurn({ properties: properties as never }),
      );
    assert(!exists("toString", {}));
    assert(!exists("a.valueOf", { a: {} }));
    assert(!exists("inherited", Object.create({ inherited: 1 }) as object));
    assert(!exists("text.length", { text: "abc" }));
    assert(exists("items.0.price", { items: [{ price: 1 }] }));
    assert(exists("nothing", { nothing: null }), "null is a value");
  });

  it("read the player's fields, null ones as missing", () => {
    const holds = (field: string, op: string, value?: unknown): boolean => {
      const player = aPlayer({
        xp: 150,
        level: 2,
        tags: ["vip"],
        country: "SE",
        attributes: { a: { b: 5 } },
      });
      return compileGroup({ all: [{ type: "player_property", field, op, value }] } as ConditionNode)(
        aTurn({ player }),
      );
    };
    assert(
      holds("xp", "eq", 150) &&
        holds("level", "gt", 1) &&
        holds("tags", "contains", "vip") &&
        holds("country", "in", ["SE"]),
    );
    assert(
      holds("attributes.a.b", "eq", 5) &&
        holds("status", "eq", "ACTIVE") &&
        holds("externalUserId", "starts_with", "u"),
    );
    assert(
      holds("createdAt", "older_than", "P30D") &&
        holds("lastSeenAt", "not_exists") &&
        holds("timezone", "not_exists"),
    );
  });

  it("order text by code point, also beyond the basic plane", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (a, b) => {
        assert.equal(compareText(a, b) < 0, before(a, b));
      }),
    );
    assert(compareText("\uFFFD", "\u{1F600}") < 0);
  });

  it("match globs against any text in bounded time", () => {
    const hostile = compileGlob("*a".repeat(100));
    const start = performance.now();
    assert.equal(hostile(`${"a".repeat(1_000)}b`), false);
    assert(performance.now() - start < 200);
    assert.equal(compileGlob("*")("x".repeat(1_025)), false, "longer texts never match");
    assert(
      compileGlob("level-?-*")("level-7-boss") && !compileGlob("?")("") && compileGlob("?")("\u{1F600}"),
    );
  });
});
