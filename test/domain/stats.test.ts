import assert from "node:assert/strict";
import fc from "fast-check";
import { newId } from "../../src/domain/kernel/ids.ts";
import { noEffects } from "../../src/domain/evaluation/effects.ts";
import { evaluateEvent, openTurn } from "../../src/domain/evaluation/evaluate.ts";
import { createSharedCounters } from "../../src/domain/evaluation/shared-counters.ts";
import { compileRule } from "../../src/domain/evaluation/running/compile.ts";
import { differenceOf } from "../../src/domain/rules/insight/lift.ts";
import {
  bucketEnd,
  bucketOf,
  createStatsRecorder,
  type Histogram,
  percentile,
} from "../../src/domain/evaluation/running/stats.ts";
import { writeStats } from "../../src/domain/progression/save.ts";
import {
  createTrace,
  type ExplainedNode,
  failingLeaf,
  isTraced,
  TRACE_MAX_CHARACTERS,
  truncateTrace,
} from "../../src/domain/evaluation/trace/trace.ts";
import type { App } from "../../src/app.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { flushRuleStats } from "../../src/jobs/jobs.ts";
import { startRunners } from "../../src/jobs/job.ts";
import type { Database } from "../../src/platform/database.ts";
import { type Domain, openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { aPlan, aPlayerState, PROJECT } from "../support/rules/plan.ts";
import { aRule, NOW, ruleSetOf } from "../support/rules/evaluation.ts";

const HOUR_MS = 3_600_000;

describe("statistics of rules", () => {
  it("name percentiles to a fifth, whatever the times were", () => {
    const times = fc.array(fc.integer({ min: 0, max: 5_000_000 }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(times, fc.constantFrom(0.5, 0.99), (micros, p) => {
        const histogram: Histogram = {};
        for (const one of micros) {
          const bucket = String(bucketOf(one));
          histogram[bucket] = (histogram[bucket] ?? 0) + 1;
        }
        const exact = micros.toSorted((a, b) => a - b)[Math.ceil(p * micros.length) - 1]!;
        const told = percentile(histogram, p)!;
        assert.ok(told >= exact - 0.1 && told <= Math.max(1, exact) * 1.2 + 0.1, `${told} for ${exact}`);
      }),
    );
    assert.equal(percentile({}, 0.5), null);
    assert.ok(bucketEnd(bucketOf(1_000)) > 1_000);
  });

  it("forget a batch that is never committed", () => {
    const recorder = createStatsRecorder();
    const rule = compileRule(aRule());
    const undone = recorder.openBatch();
    undone.observerOf(PROJECT)(rule, { fired: true, reason: "MATCHED" });
    assert.deepEqual(recorder.take(), []);
    const done = recorder.openBatch();
    done.observerOf(PROJECT)(rule, { fired: true, reason: "MATCHED" });
    done.observerOf(PROJECT)(rule, { fired: false, reason: "COOLDOWN" });
    done.commit(noEffects(), NOW);
    const [counts] = recorder.take();
    assert.deepEqual(
      [counts!.evaluated, counts!.fired, counts!.reasons, counts!.hourMs],
      [2, 1, { MATCHED: 1, COOLDOWN: 1 }, NOW - (NOW % HOUR_MS)],
    );
    assert.deepEqual(recorder.take(), []);
    recorder.restore([counts!]);
    assert.deepEqual(recorder.take(), [counts]);
  });

  describe("in the database", () => {
    let database: Database;
    let domain: Domain;
    before(async () => {
      database = await openMemoryDatabase();
      domain = openDomain(database);
    });
    after(() => database.close());

    it("are written when the process stops, and kept for the next time when they cannot be", async () => {
      const projectId = await domain.addProject();
      let isAway = true;
      const transact: Transact = (run) => {
        if (isAway) throw new Error("no database");
        return domain.transact(run);
      };
      const log = { error: () => undefined };
      const ruleStats = createStatsRecorder();
      const app = { transact, log, ruleStats } as unknown as App;
      const batch = ruleStats.openBatch();
      batch.observerOf(projectId)(compileRule(aRule()), { fired: true, reason: "MATCHED" });
      batch.commit(noEffects(), NOW);
      await assert.rejects(flushRuleStats.run(app, "*"), /no database/);
      isAway = false;
      await startRunners(app, {
        "flush-rule-stats": { ...flushRuleStats, everyMs: undefined as never },
      }).close();
      const rows = await domain.sql<{ fired: number }>`
        select fired::int from rule_stats where project_id = ${projectId}`;
      assert.deepEqual(rows, [{ fired: 1 }]);
    });

    it("add up over any number of writes, in any order", async () => {
      const projectId = await domain.addProject();
      const ruleId = newId();
      const count = (n: number, reason: string) => ({
        projectId,
        ruleId,
        hourMs: NOW - (NOW % HOUR_MS),
        evaluated: n,
        fired: 1,
        reasons: { [reason]: n, MATCHED: 1 },
        leafFails: {},
        cost: { xp: -n },
        micros: { "4": n },
      });
      for (const [n, reason] of [
        [3, "COOLDOWN"],
        [5, "STOPPED"],
        [2, "COOLDOWN"],
      ] as const)
        await domain.transact((work) => writeStats(work, [count(n, reason)]));
      const [row] = await domain.sql<Record<string, unknown>>`
        select evaluated::int, fired::int, reasons, leaf_fails, cost, micros from rule_stats
        where project_id = ${projectId}`;
      assert.deepEqual(row, {
        evaluated: 10,
        fired: 3,
        reasons: { COOLDOWN: 5, STOPPED: 5, MATCHED: 3 },
        leaf_fails: {},
        cost: { xp: -10 },
        micros: { "4": 10 },
      });
    });
  });
});

describe("the condition that failed", () => {
  const leaf = (path: string, pass: boolean): ExplainedNode => ({ path, type: "event_property", pass });
  const group = (type: string, pass: boolean, children: ExplainedNode[]): ExplainedNode => ({
    path: type,
    type,
    pass,
    children,
  });

  it("is the first of an `all`, an `any` as a whole, and of a `none` the one that held", () => {
    assert.equal(failingLeaf(group("all", true, [leaf("a", true)])), undefined);
    assert.equal(
      failingLeaf(group("all", false, [leaf("a", true), leaf("b", false), leaf("c", false)])),
      "b",
    );
    assert.equal(failingLeaf(group("any", false, [leaf("a", false), leaf("b", false)])), "any");
    assert.equal(failingLeaf(group("none", false, [leaf("a", false), leaf("b", true)])), "b");
    const inner = group("none", false, [leaf("a", true)]);
    assert.equal(failingLeaf(group("all", false, [leaf("x", true), inner])), "a");
  });
});

describe("traces", () => {
  it("are of the share of events that the project asks for, the same ones every time", () => {
    const ids = Array.from({ length: 20_000 }, () => newId());
    const share = (live: number): number => {
      const plan = aPlan({ settings: { traceSampling: { live, test: 1 } } });
      const traced = ids.filter((id) => isTraced(plan, id));
      assert.deepEqual(
        traced,
        ids.filter((id) => isTraced(plan, id)),
      );
      return traced.length / ids.length;
    };
    assert.equal(share(0), 0);
    assert.equal(share(1), 1);
    for (const live of [0.01, 0.25, 0.5])
      assert.ok(Math.abs(share(live) - live) < 0.02, `${share(live)} of ${live}`);
    const sandbox = aPlan({ isSandbox: true, settings: { traceSampling: { live: 0, test: 1 } } });
    assert.ok(isTraced(sandbox, ids[0]!));
  });

  it("never come out longer than what is kept, and clip long values to whole characters", () => {
    const long = "x".repeat(63) + "😀".repeat(500);
    const documents = Array.from({ length: 150 }, (_, i) => ({
      key: `r${i}`,
      conditions: {
        all: Array.from({ length: 10 }, () => ({
          type: "event_property",
          path: "text",
          op: "neq",
          value: "y".repeat(200),
        })),
      },
    }));
    const plan = aPlan({ rules: ruleSetOf(...documents) });
    const trace = createTrace(plan.rules, { eventId: newId() });
    const event = { id: newId(), type: "tried", at: NOW, properties: { text: long }, depth: 0 };
    const shared = createSharedCounters("FROM_ZERO");
    const parts = { plan, player: aPlayerState(), event, nowMs: NOW, effects: noEffects(), shared, trace };
    evaluateEvent(openTurn(parts));
    const whole = trace.result();
    assert.ok(JSON.stringify(whole).length > TRACE_MAX_CHARACTERS);
    const kept = truncateTrace(whole);
    assert.ok(JSON.stringify(kept).length <= TRACE_MAX_CHARACTERS);
    assert.equal(kept.truncated, true);
    const [one] = truncateTrace({ ...whole, rules: whole.rules.slice(0, 1) }).rules;
    const { actual } = one!.conditions!.children![0]!;
    assert.ok(String(actual).isWellFormed() && String(actual).length <= 66, String(actual));
  });
});

describe("the lift of a rule", () => {
  it("comes with an interval as in Newcombe's worked example", () => {
    // Method 10 for 56 of 70 and 48 of 80: 0.2, from 0.0524 to 0.3339 (Statistics in Medicine 17, table II).
    assert.deepEqual(differenceOf({ hits: 56, n: 70 }, { hits: 48, n: 80 }), {
      value: 0.2,
      low: 0.0524,
      high: 0.3339,
    });
    assert.equal(differenceOf({ hits: 0, n: 0 }, { hits: 1, n: 2 }), null);
  });

  it("has an interval that holds the difference, within what shares can differ by", () => {
    const group = fc
      .integer({ min: 1, max: 500 })
      .chain((n) => fc.record({ n: fc.constant(n), hits: fc.nat(n) }));
    fc.assert(
      fc.property(group, group, (a, b) => {
        const { value, low, high } = differenceOf(a, b)!;
        assert.ok(low <= value && value <= high && low >= -1 && high <= 1);
      }),
    );
  });
});
