import assert from "node:assert/strict";
import { LOOPS_MAX } from "../../src/domain/rules/lifecycle/publishing.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { emitted } from "../support/app/outbox.ts";
import { madeOnce } from "../support/made.ts";

describe("a rule that loops", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  type Loop = { ruleKey: string; chain: string[]; paused: boolean };
  const loopsOf = () => emitted<Loop>(api.app, tenant.projectId, "rule.loop_detected");

  it("is cut each time, and paused for good when it has looped a hundred times", async () => {
    const rule = {
      key: "echo",
      name: "Echo",
      triggers: [{ kind: "EVENT", eventTypes: ["said", "echoed"] }],
      // Publishing refuses a loop that nothing ends.
      limits: { perPlayer: [{ max: 1_000_000, window: "DAY" }] },
      actions: [
        { type: "grant_xp", amount: 1 },
        { type: "emit_event", eventType: "echoed", channels: ["rules"] },
      ],
    };
    const { token } = tenant;
    must(await api.post("/api/v1/rules", rule, { token }), 201);
    must(await api.post("/api/v1/rules/echo/publish", {}, { token }), 200);
    const say = (count: number) =>
      api.post(
        "/api/v1/events/batch",
        {
          events: Array.from({ length: count }, (_, i) => ({
            externalUserId: `u${i % 7}`,
            eventType: "said",
          })),
        },
        { key: tenant.key },
      );
    must(await say(LOOPS_MAX - 1), 200);
    await eventually(async () => (await loopsOf()).length === LOOPS_MAX - 1);
    const before = must(await api.get("/api/v1/rules/echo", { token }), 200);
    assert.deepEqual([before["status"], before["pauseReason"]], ["ACTIVE", null]);
    must(await say(1), 200);
    await eventually(
      async () => must(await api.get("/api/v1/rules/echo", { token }), 200)["status"] === "PAUSED",
    );
    const paused = must(await api.get("/api/v1/rules/echo", { token }), 200);
    assert.equal(paused["pauseReason"], "LOOP_GUARD");
    const loops = await loopsOf();
    assert.equal(loops.length, LOOPS_MAX + 1);
    assert.deepEqual(loops.at(-1), {
      ...loops.at(-1),
      ruleKey: "echo",
      chain: ["echo", "echo"],
      paused: true,
    });
    const xp = await api.sql<{ xp: number }>`
      select sum(xp) as xp from players where project_id = ${tenant.projectId}`;
    assert.equal(xp[0]!.xp, LOOPS_MAX, "each event has fired it once");
  });
});
