import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { backfill } from "../../src/domain/rules/insight/recount-players.ts";
import { backtest, backtestParams, BacktestRequest } from "../../src/domain/rules/insight/backtest.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { createRule } from "../../src/domain/rules/rules.ts";
import { countersIn, countersOfEvents, runJob } from "../support/domain/crashing.ts";
import { define, memoryDomain, publish, type TestEvent } from "../support/domain/domain.ts";

const DAY_MS = 86_400_000;
const GOALS = { eventTypes: ["goal"], aggregate: "count" };

/** A rule on its third goal and more, twice a day at most. */
const THIRD = {
  key: "third",
  name: "From the third goal on",
  triggers: [{ kind: "EVENT", eventTypes: ["goal"] }],
  conditions: {
    all: [
      { type: "event_property", path: "points", op: "gte", value: 2 },
      { type: "event_aggregate", metric: GOALS, op: "gte", value: 3 },
    ],
  },
  actions: [
    { type: "grant_xp", amount: { $ref: "event.properties.points" } },
    { type: "adjust_currency", currencyKey: "coins", amount: 1 },
  ],
  limits: { perPlayer: [{ max: 2, window: "DAY" }] },
};

describe("jobs over past events", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  beforeEach(async () => {
    projectId = await domain.addProject();
    await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
  });

  const history = (users: number, each: number): TestEvent[] =>
    Array.from({ length: users * each }, (_, i) => ({
      user: `u${i % users}`,
      type: i % 7 === 6 ? "other" : "goal",
      at: new Date(Date.now() - 3 * DAY_MS + i * 60_000),
      properties: { points: 1 + (i % 4) },
    }));
  const span = {
    from: new Date(Date.now() - 9 * DAY_MS).toISOString(),
    to: new Date(Date.now() + DAY_MS).toISOString(),
  };
  const testRule = async (project: string, request: Json = {}): Promise<Json> => {
    const params = await domain.transact((work) =>
      backtestParams(work, project, "third", BacktestRequest.parse({ ...span, ...request })),
    );
    return (await runJob(domain, project, { kind: backtest, params })).result;
  };
  const draft = (project: string, rule: Json = THIRD): Promise<unknown> =>
    domain.transact((work) => createRule(work, project, RuleDocument.parse(rule), "test"));

  describe("a backtest", () => {
    it("tells what the rule would have given, to the last coin, had it run", async () => {
      const live = await domain.addProject();
      await define(domain, live, "currency", { key: "coins", name: "Coins" });
      const ruleId = await publish(domain, live, THIRD);
      const events = history(9, 20);
      await domain.track(live, events);
      await domain.process();
      await draft(projectId);
      await domain.track(projectId, events);
      await domain.process();

      const result = await testRule(projectId);
      const fired = await domain.sql<{
        n: string;
        players: string;
      }>`select count(*) as n, count(distinct player_id) as players
        from rule_executions where project_id = ${live} and rule_id = ${ruleId}`;
      const given = await domain.sql<{
        asset: string;
        sum: string;
      }>`select asset, sum(amount) as sum from ledger_entries
        where project_id = ${live} group by asset order by asset`;
      assert.equal(result["events"], events.length);
      assert.deepEqual(
        [result["fired"], result["playersReached"]],
        [Number(fired[0]!.n), Number(fired[0]!.players)],
      );
      assert.deepEqual(result["cost"], {
        "currency:coins": Number(given[0]!.sum),
        xp: Number(given[1]!.sum),
      });
      const reasons = result["reasons"] as Record<string, number>;
      assert.ok(reasons["LIMIT_REACHED"]! > 0 && reasons["CONDITIONS_NOT_MET"]! > 0);
      assert.equal(
        Object.values(reasons).reduce((sum, n) => sum + n, 0),
        result["evaluated"],
      );
      const perDay = result["perDay"] as { day: string; fired: number }[];
      assert.equal(
        perDay.reduce((sum, day) => sum + day.fired, 0),
        result["fired"],
      );
      const paths = (result["topFailingConditions"] as { path: string }[]).map(({ path }) => path);
      assert.deepEqual(paths.toSorted(), ["conditions.all[0]", "conditions.all[1]"]);
      assert.equal((result["samples"] as unknown[]).length, 20);
    });

    it("changes nothing", async () => {
      await draft(projectId);
      await domain.track(projectId, history(3, 10));
      await domain.process();
      const state = () =>
        domain.sql`select to_jsonb(p) as p, s.doc from players p left join player_states s
          on s.project_id = p.project_id and s.player_id = p.id
          where p.project_id = ${projectId} order by p.id`;
      const before = await state();
      assert.ok(((await testRule(projectId))["fired"] as number) > 0);
      assert.deepEqual(await state(), before);
      const left = await domain.sql`select 1 from ledger_entries where project_id = ${projectId}`;
      assert.deepEqual(left, []);
    });

    it("takes the same share of players every time, and no events outside its span", async () => {
      await draft(projectId);
      await domain.track(projectId, history(40, 2));
      await domain.process();
      // Samples tell how long rules took, which is never the same.
      const half = async (): Promise<Json> => ({
        ...(await testRule(projectId, { sampleRate: 0.5 })),
        samples: [],
      });
      const some = await half();
      assert.deepEqual(await half(), some);
      const players = some["players"] as number;
      assert.ok(players > 5 && players < 35, String(players));
      const early = { from: "2020-01-01T00:00:00Z", to: "2020-02-01T00:00:00Z" };
      assert.equal((await testRule(projectId, early))["events"], 0);
    });

    it("is refused for a span that ends before it begins, and for one of more than a year", async () => {
      await draft(projectId);
      const request = (from: string, to: string) => testRule(projectId, { from, to });
      const code = { code: "VALIDATION_ERROR" };
      await assert.rejects(request("2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"), code);
      await assert.rejects(request("2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z"), code);
      await assert.rejects(testRule(projectId, { version: 5 }), { code: "NOT_FOUND" });
    });
  });

  describe("a backfill", () => {
    it("counts what players did before the rule was published, and twice gives the same", async () => {
      await domain.track(projectId, history(70, 12));
      await domain.process();
      const ruleId = await publish(domain, projectId, THIRD);
      assert.deepEqual(
        Object.values(await countersIn(domain, projectId, GOALS)).filter((counter) => counter !== undefined),
        [],
      );
      const { result, steps } = await runJob(domain, projectId, { kind: backfill, params: { ruleId } });
      // Ten of them never scored a goal.
      assert.deepEqual([result["players"], result["changed"], steps > 1], [70, 60, true]);
      const expected = await countersOfEvents(domain, projectId, GOALS);
      assert.deepEqual(await countersIn(domain, projectId, GOALS), expected);
      const again = await runJob(domain, projectId, { kind: backfill, params: { ruleId } });
      assert.equal(again.result["changed"], 0);
      assert.deepEqual(await countersIn(domain, projectId, GOALS), expected);
    });

    it("leaves to processing what is not processed yet, so that each event counts once", async () => {
      await domain.track(projectId, history(5, 10));
      await domain.process();
      const ruleId = await publish(domain, projectId, THIRD);
      await domain.track(projectId, history(60, 3));
      const between = async (): Promise<void> => {
        await domain.process();
        await domain.track(projectId, history(60, 1));
      };
      await runJob(domain, projectId, { kind: backfill, params: { ruleId }, between });
      await domain.process();
      const expected = await countersOfEvents(domain, projectId, GOALS);
      assert.deepEqual(await countersIn(domain, projectId, GOALS), expected);
    });

    it("does nothing for a rule that no longer runs", async () => {
      await domain.track(projectId, history(3, 3));
      await domain.process();
      await draft(projectId);
      const [row] = await domain.sql<{ id: string }>`select id from rules where project_id = ${projectId}`;
      const { result } = await runJob(domain, projectId, { kind: backfill, params: { ruleId: row!.id } });
      assert.match(String(result["note"]), /does not run/);
    });
  });
});
