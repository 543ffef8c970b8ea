import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { compileGroup, type ConditionNode } from "../../src/domain/evaluation/language/groups.ts";
import { holdsText } from "../../src/domain/evaluation/language/operators.ts";
import { HOSTILE_PATHS } from "../support/rules/rule-arbitraries.ts";
import { aTurn } from "../support/rules/evaluation.ts";
import { cases } from "../support/properties.ts";

const base = {
  key: "r",
  name: "Rule",
  triggers: [{ kind: "EVENT", eventTypes: ["a"] }],
  actions: [{ type: "grant_xp", amount: 1 }] as unknown[],
};
const leaf = { type: "event_property", path: "a", op: "exists" };

const times = (count: number, value: unknown): unknown[] => Array.from({ length: count }, () => value);

/** What is said about a document. */
const problemsOf = (document: unknown): string[] => {
  const parsed = RuleDocument.safeParse(document);
  return (parsed.error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);
};
const about = (conditions: unknown): string[] => problemsOf({ ...base, conditions });

const nested = (depth: number, inner: unknown, word = "all"): unknown => {
  let node = inner;
  for (let i = 0; i < depth; i++) node = { [word]: [node] };
  return node;
};

describe("hostile rules", () => {
  it("of any depth and width are refused at once, with the place named", () => {
    assert.match(about(nested(2_000, leaf))[0]!, /^conditions(\.all\.0){5}: nested deeper than 5/);
    assert.deepEqual(about({ all: times(1_000, leaf) }), ["conditions.all: more than 50 members"]);
    const thousand = { all: times(20, { any: times(50, leaf) }) };
    assert.deepEqual(about(thousand), ["conditions: more than 50 conditions"]);
    const million = { all: times(50, { all: times(50, { all: times(50, { all: [] }) }) }) };
    about(million);
    const faults = { all: times(50, { any: times(50, { type: "nope" }) }) };
    assert(about(faults).length <= 102, "faults are not all told");
  });

  it("cannot name a prototype, wherever a path may stand", () => {
    for (const path of ["__proto__", "a.__proto__", "constructor.prototype", "prototype.x"]) {
      const places: unknown[] = [
        { type: "event_property", path, op: "exists" },
        { type: "player_property", field: `attributes.${path}`, op: "exists" },
        { type: "event_property", path: "a", op: "eq", value: { $ref: `event.properties.${path}` } },
        { type: "event_property", path: "a", op: "eq", value: { $ref: `player.attributes.${path}` } },
        {
          type: "event_aggregate",
          metric: { eventTypes: ["a"], aggregate: "sum", property: path },
          op: "gte",
          value: 1,
        },
        {
          type: "event_aggregate",
          metric: { eventTypes: ["a"], aggregate: "count", filter: { path, op: "exists" } },
          op: "gte",
          value: 1,
        },
      ];
      for (const condition of places) {
        const [problem, ...more] = about({ all: [condition] });
        assert.match(problem ?? "accepted", /^conditions\.all\.0\./, JSON.stringify(condition));
        assert.deepEqual(more, []);
      }
    }
    for (const key of ["__proto__", "Constructor", "a b", ""])
      assert(
        about({ all: [{ type: "player_property", field: `currencies.${key}`, op: "exists" }] }).length > 0,
      );
  });

  it("that were stored all the same see nothing of a prototype", () => {
    const properties = JSON.parse('{"__proto__": {"x": 1}, "p": [1], "deep": {"0": {"y": 1}}}') as Json;
    for (const path of HOSTILE_PATHS.filter((one) => !["p.0", "__proto__"].includes(one))) {
      const test = compileGroup({ type: "event_property", path, op: "exists" });
      assert.equal(test(aTurn({ properties })), false, path);
    }
  });

  it("with numbers beyond what is exact stay numbers", () => {
    const holds = (condition: Json, properties: Json) =>
      compileGroup({ all: [condition] } as unknown as ConditionNode)(aTurn({ properties }));
    assert(holds({ type: "event_property", path: "n", op: "gt", value: 1e300 }, { n: 1e301 }));
    assert(!holds({ type: "event_property", path: "n", op: "eq", value: 2 ** 53 }, { n: String(2 ** 53) }));
    for (const value of [Number.NaN, Infinity, -Infinity]) {
      const condition = { type: "event_property", path: "n", op: "gt", value };
      assert(about({ all: [condition] }).length > 0, String(value));
    }
    const limit = { type: "event_aggregate", metric: { eventTypes: ["a"], aggregate: "count" }, op: "gte" };
    for (const value of ["5", null, [1, 2, 3], [2, 1], { a: 1 }])
      assert.match(about({ all: [{ ...limit, value }] })[0]!, /^conditions\.all\.0\.value/);
    const metric = { eventTypes: ["a"], aggregate: "distinct", property: "p" };
    assert.deepEqual(about({ all: [{ ...limit, metric, value: 1_000 }] }), []);
    assert.match(about({ all: [{ ...limit, metric, value: 1_001 }] })[0]!, /distinct counts to 1000/);
  });

  it("look for a text in a text in time of both lengths, whatever they hold", () => {
    const part = `${"a".repeat(1_000)}b${"a".repeat(1_500)}`;
    const looked = times(40, {
      type: "event_property",
      path: "t",
      op: "contains",
      value: { $ref: "event.properties.p" },
    });
    const test = compileGroup({ any: looked as ConditionNode[] });
    const turn = aTurn({ properties: { t: "a".repeat(13_700), p: part } });
    assert.equal(test(turn), false);
    const words = fc.stringMatching(/^[ab]{0,12}$/);
    const texts = fc.tuple(words, fc.nat(20), words).map(([one, n, other]) => one.repeat(n) + other);
    fc.assert(
      fc.property(texts, texts, texts, (before, middle, after) => {
        assert(holdsText(before + middle + after, middle));
        assert.equal(holdsText(before, after), before.includes(after));
        assert.equal(holdsText(`${before}c${after}`, `${middle}c`), `${before}c`.endsWith(`${middle}c`));
      }),
      { numRuns: cases(500) },
    );
  });

  it("say of what does not exist yet that it is not available yet", () => {
    const rank = { type: "leaderboard_rank", leaderboardKey: "top", op: "lte", value: 10 };
    const said = about({
      all: [rank, { ...rank, measure: "percentile" }, { ...rank, measure: "score", period: "PREVIOUS" }],
    });
    assert.deepEqual(
      said.filter((problem) => problem.endsWith("not available yet")),
      [
        "conditions.all.0.measure: rank is not available yet",
        "conditions.all.1.measure: percentile is not available yet",
        "conditions.all.2.period: PREVIOUS is not available yet",
      ],
    );
  });
});
