import assert from "node:assert/strict";
import * as fc from "fast-check";
import { needsOf, RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { Metric, metricId } from "../../src/domain/evaluation/metrics/compile.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { findingsOf, memoryDomain, processAll, publish, xpOf } from "../support/domain/domain.ts";
import { takeBack } from "../support/reverts/histories.ts";
import { aPlayerState } from "../support/rules/plan.ts";
import { aProject, evaluate, NOW } from "../support/rules/evaluation.ts";
import { measure, type PastEvent, type World } from "../support/rules/rule-reference.ts";
import { cases } from "../support/properties.ts";

const HOUR_MS = 3_600_000;
const wins = { eventTypes: ["tried"], aggregate: "count" };
const points = { eventTypes: ["tried"], aggregate: "sum", property: "n" };
const give = (amount: unknown, metrics: Json, more: Json = {}) => ({
  key: "r",
  metrics,
  actions: [{ type: "grant_xp", amount }],
  ...more,
});
const valid = (rule: Json) =>
  RuleDocument.safeParse({
    name: "A rule",
    triggers: [{ kind: "EVENT", eventTypes: ["tried"] }],
    ...rule,
  });
const problems = (rule: Json): string[] =>
  (valid(rule).error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);

describe("expressions that read metrics", () => {
  it("have the value at the event's time, this event included, in any window and zone", () => {
    const windows = fc.constantFrom<[unknown, Json]>(
      ["LIFETIME", { type: "LIFETIME" }],
      ["DAY", { type: "CALENDAR", unit: "DAY", timezone: "PLAYER" }],
      ["WEEK", { type: "CALENDAR", unit: "WEEK", timezone: "PLAYER" }],
      ["MONTH", { type: "CALENDAR", unit: "MONTH", timezone: "PLAYER" }],
      [
        { type: "ROLLING", seconds: 7_200 },
        { type: "ROLLING", seconds: 7_200 },
      ],
    );
    const aggregate = fc.constantFrom("count", "sum", "max", "avg", "latest", "distinct");
    const events = fc.array(fc.record({ n: fc.integer({ min: 0, max: 50 }), hours: fc.nat(60) }), {
      minLength: 1,
      maxLength: 12,
    });
    const zone = fc.constantFrom("UTC", "Europe/Berlin", "Pacific/Apia");
    fc.assert(
      fc.property(windows, aggregate, events, zone, ([window, plain], name, given, timezone) => {
        const metric = { ...points, aggregate: name, ...(name === "count" ? { property: undefined } : {}) };
        const read = { metric: "it", window };
        const set = { type: "update_player", increment: { sum: read } };
        const plan = aProject({ rules: [{ key: "r", metrics: { it: clean(metric) }, actions: [set] }] });
        const player = aPlayerState({ timezone });
        const history: PastEvent[] = [];
        let at = NOW;
        let sum = 0;
        for (const { n, hours } of given) {
          at += hours * HOUR_MS;
          history.push({ type: "tried", at, properties: { n } });
          evaluate(plan, { player, at, nowMs: at, properties: { n } });
          const world = { event: history.at(-1)!, history, playerZone: timezone, projectZone: "UTC" };
          sum += measure(world as unknown as World, { ...metric, window: plain })!;
          assert.ok(Math.abs(Number(player.attributes["sum"]) - sum) < 1e-6);
        }
      }),
      { numRuns: cases(150) },
    );
  });

  it("share the counter of a condition that reads the same, and are among what a rule needs", () => {
    const condition = {
      type: "event_aggregate",
      metric: { ...wins, window: { type: "CALENDAR", unit: "DAY" } },
      op: "gte",
      value: 2,
    };
    const rule = give({ metric: "wins", window: "DAY" }, { wins }, { conditions: { all: [condition] } });
    const plan = aProject({ rules: [rule] });
    assert.equal(plan.metrics.byId.size, 1);
    const player = aPlayerState();
    for (let i = 0; i < 3; i++) evaluate(plan, { player });
    assert.equal(player.xp, 2 + 3);
    const { metrics } = needsOf(valid(rule).data!);
    const daily = Metric.parse(condition.metric);
    assert.deepEqual(metrics.map(metricId), [metricId(daily), metricId(daily)]);
  });

  it("are 0 without a value, or their default", () => {
    const metrics = { top: { ...points, aggregate: "max" } };
    const nothing = evaluate(aProject({ rules: [give({ metric: "top" }, metrics)] }), { properties: {} });
    assert.deepEqual([nothing.player.xp, nothing.reasons], [0, ["r MATCHED"]]);
    assert.match(nothing.warnings.join(), /no max of n: 0 is used/);
    const filled = aProject({ rules: [give({ metric: "top", default: 7 }, metrics)] });
    assert.equal(evaluate(filled, { properties: {} }).player.xp, 7);
  });

  it("name metrics of the rule, each problem at its place", () => {
    assert.deepEqual(problems(give({ op: "add", args: [1, { metric: "wins" }] }, { wins })), []);
    assert.deepEqual(problems(give({ op: "add", args: [1, { metric: "gone" }] }, { wins })), [
      "actions.0.amount.args.1.metric: the rule has no metric gone",
    ]);
    assert.match(
      problems({ key: "r", actions: [{ type: "grant_xp", amount: { metric: "x" } }] })[0]!,
      /^actions/,
    );
    assert.equal(problems(give({ metric: "wins", window: "YEAR" }, { wins })).length, 1);
    assert.match(problems(give(1, { wins: { ...wins, property: "n" } }))[0]!, /^metrics\.wins\.property/);
    const many = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`m${i}`, wins]));
    assert.match(problems(give(1, many))[0]!, /^metrics: must name at most 10/);
    const named = [
      { type: "update_player", set: { metric: "gold" }, increment: { metric: { metric: "wins" } } },
    ];
    const rule = { key: "r", metrics: { wins }, actions: named };
    assert.deepEqual(problems(rule), [], "attributes may be called so");
    const { player } = evaluate(aProject({ rules: [rule] }));
    assert.deepEqual(player.attributes, { metric: 1 }, "set first, then counted from what is no number");
  });

  describe("after a revert", () => {
    const { domain } = memoryDomain();

    it("read what the other events have made of the metric", async () => {
      const projectId = await domain.addProject();
      await publish(domain, projectId, {
        key: "r",
        metrics: { points: { ...points, eventTypes: ["goal"] } },
        actions: [{ type: "grant_xp", amount: { metric: "points", window: "DAY" } }],
      });
      // All on one day, also when midnight comes between them.
      const at = new Date();
      const send = async (n: number): Promise<string> => {
        const ids = await domain.track(projectId, [{ user: "ada", at, properties: { n } }]);
        await processAll(domain);
        return ids[0]!;
      };
      await send(1);
      const second = await send(10);
      assert.deepEqual(await xpOf(domain, projectId), { ada: 1 + 11 });
      await takeBack(domain, projectId, second);
      assert.deepEqual(await xpOf(domain, projectId), { ada: 1 });
      await send(100);
      assert.deepEqual(await xpOf(domain, projectId), { ada: 1 + 101 });
      assert.deepEqual(await findingsOf(domain, projectId), []);
    });
  });
});

const clean = (value: object): Json => JSON.parse(JSON.stringify(value)) as Json;
