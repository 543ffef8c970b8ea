import assert from "node:assert/strict";
import { sql } from "kysely";
import { PLAYER_STATE_MAX_BYTES } from "../../../src/domain/kernel/limits.ts";
import { Metric, metricId } from "../../../src/domain/evaluation/metrics/compile.ts";
import { must } from "../http/client.ts";
import { eventually } from "../eventually.ts";
import { damageRule, makeDue } from "../domain/failed-event.ts";
import { ruleOn, type Scenario } from "./stage.ts";

const loop: Scenario = {
  tells: ["rule.loop_detected"],
  play: async (stage) => {
    await stage.game.make("/rules", {
      key: "echo",
      name: "Echo",
      triggers: [{ kind: "EVENT", eventTypes: ["said", "echoed"] }],
      // Publishing refuses a loop that nothing ends.
      limits: { perPlayer: [{ max: 1_000, window: "DAY" }] },
      actions: [{ type: "emit_event", eventType: "echoed", channels: ["rules"] }],
    });
    must(await stage.game.post("/rules/echo/publish"), 200);
    await stage.game.track("ada", "said");
  },
};

const steps: Scenario = {
  tells: ["event.steps_exhausted"],
  play: async (stage) => {
    const properties = { text: { $ref: "event.properties.text" } };
    const telling = { type: "emit_event", eventType: "told", channels: ["webhook"], properties };
    const actions = Array.from({ length: 20 }, () => telling);
    for (const key of ["dear", "dear-too", "dear-also", "dear-last"]) {
      const triggers = [{ kind: "EVENT", eventTypes: ["dear"] }];
      await stage.game.make("/rules", { key, name: key, triggers, actions });
      must(await stage.game.post(`/rules/${key}/publish`), 200);
    }
    await stage.game.track("ada", "dear", { text: "y".repeat(15_000) });
  },
};

const budget: Scenario = {
  tells: ["rule.budget_exhausted"],
  play: async (stage) => {
    const limits = { budgets: [{ asset: "currency:coins", max: 10, window: "DAY" }] };
    const actions = [{ type: "adjust_currency", currencyKey: "coins", amount: 6 }];
    await ruleOn(stage, "shared", { actions, limits });
    for (const _ of [1, 2]) await stage.game.track("ada", "shared");
  },
};

const reverted: Scenario = {
  tells: ["event.reverted"],
  play: async (stage) => {
    const { game } = stage;
    const actions = [
      { type: "grant_xp", amount: 30 },
      { type: "adjust_currency", currencyKey: "coins", amount: 5 },
    ];
    await ruleOn(stage, "bought", { actions });
    const { body } = await game.post("/events?wait=true", { externalUserId: "ada", eventType: "bought" });
    assert.equal(body.status, "PROCESSED");
    must(await game.post(`/events/${body.eventId}/revert`, { reason: "The order was cancelled" }), 200);
  },
};

/** A rule whose counter finds no room, since an older one takes all of it. */
const uncounted: Scenario = {
  tells: ["event.uncounted"],
  play: async (stage) => {
    const actions = [{ type: "grant_xp", amount: 1 }];
    const metrics = ["filling", "full"].map((type) =>
      Metric.parse({ eventTypes: [type], aggregate: "count" }),
    );
    const all = metrics.map((metric) => ({ type: "event_aggregate", metric, op: "gte", value: 1 }));
    await ruleOn(stage, "full", { actions, conditions: { all } });
    const { projectId } = stage.game.tenant;
    const bytes = PLAYER_STATE_MAX_BYTES - 30;
    await stage.change(sql`
      insert into player_states (project_id, player_id, doc, bytes)
      select project_id, id, jsonb_build_object('c', jsonb_build_object(${metricId(metrics[0]!)}::text,
        repeat('x', ${bytes}::int))), ${bytes}::int
      from players where project_id = ${projectId} and external_user_id = 'ada'
      on conflict (project_id, player_id) do update set doc = excluded.doc, bytes = excluded.bytes`);
    await stage.game.track("ada", "full");
    // The other scenarios count again.
    await stage.change(sql`update player_states set doc = '{}', bytes = 2 where project_id = ${projectId}`);
  },
};

/** A rule that throws. */
const failing: Scenario = {
  tells: ["event.failed"],
  play: async (stage) => {
    const { api, game } = stage;
    const { projectId } = game.tenant;
    await ruleOn(stage, "imported", { actions: [{ type: "grant_xp", amount: 10 }] });
    await damageRule(api.app, projectId, "imported");
    const { body } = await game.post("/events", { externalUserId: "ada", eventType: "imported" });
    await eventually(
      async () => {
        await makeDue(api.app, projectId);
        return (await game.get(`/events/${body.eventId}`)).body.status === "FAILED";
      },
      { timeoutMs: 60_000, label: "the event is given up" },
    );
  },
};

/** Scenarios about rules and tracked events. */
export const EVENT_SCENARIOS: readonly Scenario[] = [loop, steps, budget, reverted, uncounted, failing];
