import assert from "node:assert/strict";
import { identifyActions, RuleDocument, RulePatch } from "../../src/domain/evaluation/language/document.ts";
import { aDocument } from "../support/rules/evaluation.ts";
import { pluck } from "../support/pluck.ts";

const problemsOf = (
  document: unknown,
  schema: typeof RuleDocument | typeof RulePatch = RuleDocument,
): string[] => {
  const parsed = schema.safeParse(document);
  return parsed.success
    ? []
    : parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
};

const base = {
  key: "r",
  name: "Rule",
  triggers: [{ kind: "EVENT", eventTypes: ["a"] }],
  actions: [{ type: "grant_xp", amount: 1 }] as unknown[],
};
const withCondition = (condition: unknown) => ({ ...base, conditions: { all: [condition] } });
const withAmount = (amount: unknown) => ({ ...base, actions: [{ type: "grant_xp", amount }] });

describe("rule documents", () => {
  it("are the same when they are read again", () => {
    const document = aDocument({
      description: "All there is",
      tags: ["xp"],
      conditions: {
        all: [
          { type: "event_property", path: "score", op: "gte", value: { $ref: "player.level", default: 2 } },
          {
            any: [
              { type: "time_window", daysOfWeek: [6, 7] },
              { none: [{ type: "player_property", field: "tags", op: "contains", value: "staff" }] },
            ],
          },
        ],
      },
      actions: [
        { type: "grant_xp", amount: { op: "mul", args: [{ $ref: "event.properties.score" }, 2] } },
        {
          type: "update_player",
          set: { best: { $ref: "event.properties.score" } },
          increment: { runs: 1 },
          addTags: ["ran"],
        },
        {
          type: "submit_score",
          leaderboardKey: "top",
          score: {
            op: "table",
            input: 5,
            steps: [
              [0, 1],
              [10, 2],
            ],
          },
        },
      ],
      limits: {
        perPlayer: [
          { max: 3, window: "DAY" },
          { max: 9, window: { rollingSeconds: 60 } },
        ],
        cooldownSeconds: 5,
      },
      schedule: { activeFrom: "2026-01-01T00:00:00Z", activeUntil: "2026-02-01T00:00:00+01:00" },
      stopOnMatch: true,
      exclusiveGroup: "g",
    });
    assert.deepEqual(RuleDocument.parse(JSON.parse(JSON.stringify(document))), document);
  });

  it("have a key of at most 64 characters, as every definition has", () => {
    assert.deepEqual(problemsOf({ ...base, key: "k".repeat(64) }), []);
    assert.match(problemsOf({ ...base, key: "k".repeat(65) })[0]!, /^key: must be 1 to 64 /);
  });

  it("say at its path what is not available yet", () => {
    const problems = problemsOf({
      ...base,
      actions: [
        { type: "grant_xp", amount: 1 },
        { type: "grant_xp", amount: 1, target: { lobbyMembers: { $ref: "event.properties.lobby" } } },
        { type: "emit_event", eventType: "a", channels: ["rules", "chat"], chatChannelKey: "c" },
      ],
    });
    assert.deepEqual(
      problems.map((problem) => problem.split(":")[0]),
      ["actions.1.target.lobbyMembers", "actions.2.chatChannelKey", "actions.2.channels.1"],
    );
    assert(problems.every((problem) => problem.endsWith("is not available yet")));
  });

  it("hear what happens to players, and nothing else of the service's own events", () => {
    const listen = (...eventTypes: string[]) => ({ ...base, triggers: [{ kind: "EVENT", eventTypes }] });
    assert.deepEqual(problemsOf(listen("player.level_up", "player.*", "event.mine", "event.*", "*")), []);
    assert.deepEqual(problemsOf(listen("system.schedule", "system.*", "event.failed", "player.erased")), [
      "triggers.0.eventTypes.0: system.schedule is for the service itself",
      "triggers.0.eventTypes.1: system.* is for the service itself",
      "triggers.0.eventTypes.2: rules on event.failed are not available yet",
      "triggers.0.eventTypes.3: rules on player.erased are not available yet",
    ]);
  });

  it("name every bad condition at its own path", () => {
    const problems = problemsOf({
      ...base,
      conditions: {
        all: [
          { type: "nope" },
          { any: [] },
          3,
          { all: [], none: [] },
          { type: "event_property", path: "", op: "eq", value: 1 },
          { any: { type: "event_property", path: "a", op: "exists" } },
        ],
      },
    });
    const paths = ["all.0.type", "all.1.any", "all.2", "all.3.none", "all.4.path", "all.5.any"];
    assert.deepEqual(
      problems.map((problem) => problem.split(":")[0]),
      paths.map((path) => `conditions.${path}`),
    );
  });

  it("refuse paths into prototypes, too long and empty ones", () => {
    for (const path of [
      "__proto__",
      "a.constructor",
      "a.prototype.b",
      "a..b",
      "",
      ".a",
      "a.b.c.d.e.f",
      "a b",
    ]) {
      assert.equal(problemsOf(withCondition({ type: "event_property", path, op: "exists" })).length, 1, path);
      assert.equal(problemsOf(withAmount({ $ref: `event.properties.${path}` })).length, 1, path);
      assert.equal(
        problemsOf({ ...base, actions: [{ type: "update_player", unset: [path] }] }).length,
        1,
        path,
      );
    }
    for (const $ref of ["player.doc", "player.toString", "event.id", "constructor", "player.attributes."]) {
      assert.equal(problemsOf(withAmount({ $ref })).length, 1, $ref);
    }
  });

  it("take a reference by its name, by the older one, and not by both or none", () => {
    const of = "event.properties.score";
    for (const amount of [{ ref: of }, { $ref: of }, { ref: of, default: 1 }, { $ref: of, default: 1 }])
      assert.deepEqual(problemsOf(withAmount(amount)), []);
    for (const amount of [{}, { default: 1 }, { ref: of, $ref: of }, { ref: 1 }, { ref: "player.doc" }])
      assert.equal(problemsOf(withAmount(amount)).length, 1, JSON.stringify(amount));
  });

  it("refuse operands that do not fit their operator", () => {
    const bad: [string, unknown][] = [
      ["eq", [1]],
      ["eq", undefined],
      ["gt", true],
      ["between", [2, 1]],
      ["between", [1, "2"]],
      ["in", 1],
      ["in", []],
      ["contains_any", "a"],
      ["starts_with", 1],
      ["glob", "x".repeat(201)],
      ["exists", 1],
      ["before", "yesterday"],
      ["before", "2026-01-01T00:00:00"],
      ["within_last", "7 days"],
      ["within_last", "P1M"],
      ["older_than", "P"],
      ["matches", ".*"],
    ];
    for (const [op, value] of bad) {
      assert.equal(
        problemsOf(withCondition({ type: "event_property", path: "a", op, value })).length,
        1,
        `${op} ${String(value)}`,
      );
    }
  });

  it("bound depth and number of conditions", () => {
    const leaf = { type: "event_property", path: "a", op: "exists" };
    const nested = (depth: number): object => (depth === 0 ? leaf : { all: [nested(depth - 1)] });
    assert.deepEqual(problemsOf({ ...base, conditions: nested(5) }), []);
    assert.match(problemsOf({ ...base, conditions: nested(6) })[0]!, /nested deeper than 5/);
    const leaves = (n: number) => Array.from({ length: n }, () => leaf);
    const many = (n: number) => ({ any: [{ all: leaves(n - 25) }, { all: leaves(25) }] });
    assert.deepEqual(problemsOf({ ...base, conditions: many(50) }), []);
    assert.deepEqual(problemsOf({ ...base, conditions: many(51) }), ["conditions: more than 50 conditions"]);
  });

  it("bound depth and size of expressions, and take linear time over them", () => {
    const nested = (depth: number): unknown =>
      depth === 1 ? 1 : { op: "add", args: [nested(depth - 1), 1] };
    assert.deepEqual(problemsOf(withAmount(nested(6))), []);
    assert.match(problemsOf(withAmount(nested(7)))[0]!, /nested deeper than 6/);
    const wide = {
      op: "add",
      args: Array.from({ length: 6 }, () => ({ op: "add", args: Array(5).fill(1) })),
    };
    assert.match(problemsOf(withAmount(wide))[0]!, /more than 32 parts/);
    assert(problemsOf(withAmount(nested(30))).length > 0);
  });

  it("refuse expressions of unknown forms, unsafe numbers and unsorted tables", () => {
    const table = (steps: unknown) => ({ op: "table", input: 1, steps });
    for (const amount of [
      "5",
      null,
      {},
      { op: "pow", args: [1, 2] },
      { op: "div", args: [1] },
      { op: "abs", args: [1, 2] },
      2 ** 53,
      Number.NaN,
      table([]),
      table([
        [2, 1],
        [1, 1],
      ]),
      { $ref: "event.type", extra: 1 },
    ]) {
      assert(problemsOf(withAmount(amount)).length > 0, JSON.stringify(amount));
    }
  });

  it("refuse everything that is no rule without a throw", () => {
    const hostile = [
      null,
      [],
      "x",
      5,
      {},
      { ...base, extra: 1 },
      { ...base, actions: [] },
      { ...base, actions: Array(21).fill(base.actions[0]) },
      { ...base, triggers: [{ kind: "EVENT", eventTypes: Array(21).fill("a") }] },
      { ...base, conditions: [] },
      { ...base, limits: [] },
      { ...base, actions: [null] },
      { ...base, conditions: { all: "x" } },
      { ...base, key: "Upper" },
      { ...base, schedule: { activeFrom: "2026-02-01T00:00:00Z", activeUntil: "2026-01-01T00:00:00Z" } },
      { ...base, limits: { perPlayer: [{ max: 101, window: { rollingSeconds: 5 } }] } },
      { ...base, actions: [{ type: "update_player" }] },
      withCondition({ type: "time_window" }),
      withCondition({ type: "time_window", between: { from: "09:00", to: "09:00" } }),
      withCondition({ type: "time_window", timezone: "Mars/Base", daysOfWeek: [1] }),
    ];
    for (const document of hostile) assert(problemsOf(document).length > 0, JSON.stringify(document));
  });

  it("give actions ids that stay, and refuse an id that is used twice", () => {
    const actions = aDocument({
      actions: [
        { type: "grant_xp", amount: 1 },
        { type: "grant_xp", amount: 2, id: "a1" },
        { type: "grant_xp", amount: 3 },
      ],
    }).actions;
    assert.deepEqual(pluck(identifyActions(actions), "id"), ["a2", "a1", "a3"]);
    assert.deepEqual(identifyActions(identifyActions(actions)), identifyActions(actions));
    const twice = {
      ...base,
      actions: [
        { type: "grant_xp", amount: 1, id: "x" },
        { type: "grant_xp", amount: 1, id: "x" },
      ],
    };
    assert.deepEqual(problemsOf(twice), ['actions.1.id: "x" is used by another action']);
  });

  it("are edited in part, without defaults for what is left out", () => {
    assert.deepEqual(RulePatch.parse({ draftVersion: 3, limits: null }), { draftVersion: 3, limits: null });
    assert.deepEqual(problemsOf({ draftVersion: 1, rollout: null, reentrant: true }, RulePatch), []);
    const toChat = { type: "emit_event", eventType: "a", channels: ["rules"], chatChannelKey: "c" };
    assert.deepEqual(problemsOf({ draftVersion: 1, actions: [toChat] }, RulePatch), [
      "actions.0.chatChannelKey: chatChannelKey is not available yet",
    ]);
  });
});
