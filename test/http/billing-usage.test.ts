import assert from "node:assert/strict";
import { monthOf, monthStart } from "../../src/domain/kernel/work.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const USAGE = "/api/v1/billing/usage";

describe("the usage of a plan", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const usage = async (of = tenant) => {
    const body = must(await api.get(USAGE, { token: of.token }), 200);
    return Object.fromEntries(body.items.map((item: { metric: string }) => [item.metric, item]));
  };
  const events = async (of = tenant): Promise<number> => (await usage(of))["eventsPerMonth"].used;
  const players = async (of = tenant): Promise<number> => (await usage(of))["activePlayersPerMonth"].used;
  const event = (user: string, more: object = {}) => ({ externalUserId: user, eventType: "goal", ...more });
  const send = (body: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
    api.post("/api/v1/events", body, { key: tenant.key, headers });
  const batch = (of: object[], headers: Record<string, string> = {}): Promise<Answer> =>
    api.post("/api/v1/events/batch", { events: of }, { key: tenant.key, headers });
  /** Callers know of another plan within 5 s; their cached rows are dropped by a super-admin's change. */
  const allow = async (eventsPerMonth: number, plan: "FREE" | "PRO" = "FREE"): Promise<void> => {
    await putOnPlan(api, tenant.tenantId, plan, { eventsPerMonth, requestsPerMinute: 100_000 });
    const { forgetKeys } = await import("../../src/domain/accounts/api-keys/api-key.ts");
    const { forgetSessions } = await import("../../src/domain/accounts/auth/sessions.ts");
    forgetKeys();
    forgetSessions();
  };

  it("counts each event that is stored once: no repetition, no bad one, of all ways to send it", async () => {
    must(await send(event("ada", { idempotencyKey: "a" })), 200);
    must(await send(event("ada", { idempotencyKey: "a" })), 200);
    must(await send(event("ada"), { "X-Idempotency-Key": "request-1" }), 200);
    must(await send(event("ada"), { "X-Idempotency-Key": "request-1" }), 200);
    assertError(await send({ eventType: "goal" }), 400, undefined);
    const mixed = [event("bo"), event("bo", { idempotencyKey: "a" }), { eventType: 7 }, event("cy")];
    must(await batch(mixed), 200);
    must(await batch([event("bo"), event("cy")], { "X-Idempotency-Key": "request-2" }), 200);
    must(await api.post("/api/v1/events", event("dan"), { token: tenant.token }), 200);
    assert.equal(await events(), 7);
  });

  it("counts a player once a month, in the commit that processes the first event", async () => {
    must(await batch([event("ada"), event("ada"), event("bo")]), 200);
    await eventually(async () => (await players()) === 2);
    must(await api.post("/api/v1/events?wait=true", event("ada"), { key: tenant.key }), 200);
    must(await api.post("/api/v1/events?wait=true", event("cy"), { key: tenant.key }), 200);
    assert.equal(await players(), 3);
    // As if Ada had played last in the month before.
    await api.sql`update players set active_month = active_month - 1
      where project_id = ${tenant.projectId} and external_user_id = 'ada'`;
    must(await api.post("/api/v1/events?wait=true", event("ada"), { key: tenant.key }), 200);
    assert.equal(await players(), 4);
  });

  it("is of a month in UTC, and the counters of others stay", async () => {
    const now = api.app.clock();
    const before = monthOf(monthStart(now, -1));
    await api.sql`insert into usage_counters (tenant_id, month, slot, events, players)
      values (${tenant.tenantId}, ${before}, 0, 500, 500)`;
    await allow(1);
    must(await send(event("ada")), 200);
    assert.equal(await events(), 1);
    const body = must(await api.get(USAGE, { token: tenant.token }), 200);
    assert.equal(body.periodStart, monthStart(now).toISOString());
    assert.equal(body.periodEnd, monthStart(now, 1).toISOString());
    assert.match(body.periodStart, /-01T00:00:00.000Z$/);
  });

  it("refuses with 402 what is over, says by how much, and stores nothing of it", async () => {
    await allow(5);
    must(await batch([event("ada"), event("ada", { idempotencyKey: "k" }), event("bo")]), 200);
    const answer = await batch([event("cy"), event("cy"), event("cy", { idempotencyKey: "new" })]);
    assertError(answer, 402, "PLAN_LIMIT_EXCEEDED");
    const { code, message, details } = answer.body.error;
    assert.equal(code, "PAYMENT_REQUIRED");
    assert.match(message, /FREE includes 5 events a month; 3 are used, .* 3 new ones .* 1 are too many/);
    assert.deepEqual(details, [{ field: "eventsPerMonth", message: "limit 5, used 3, sent 3, over by 1" }]);
    assert.equal(await events(), 3);
    const listed = must(await api.get("/api/v1/events", { key: tenant.key }), 200);
    assert.equal(listed.data.length, 3);

    must(await batch([event("cy"), event("cy")]), 200);
    assertError(await send(event("cy")), 402, "PLAN_LIMIT_EXCEEDED");
    assertError(await send(event("cy"), { "X-Idempotency-Key": "r" }), 402, "PLAN_LIMIT_EXCEEDED");
    // A repetition is answered as ever, and a refusal is not kept under its key.
    assert.equal(must(await send(event("ada", { idempotencyKey: "k" })), 200).status, "DUPLICATE");
    const { eventsPerMonth } = await usage();
    assert.deepEqual(eventsPerMonth, {
      metric: "eventsPerMonth",
      used: 5,
      limit: 5,
      percent: 100,
      refusedAbove: 5,
    });
    await allow(6);
    must(await send(event("cy"), { "X-Idempotency-Key": "r" }), 200);
    assert.equal(await events(), 6);
  });

  it("takes 120 percent of a paid plan's events", async () => {
    await allow(10, "PRO");
    must(await batch(Array.from({ length: 12 }, () => event("ada"))), 200);
    const answer = await send(event("ada"));
    assertError(answer, 402, "PLAN_LIMIT_EXCEEDED");
    assert.match(answer.body.error.message, /PRO includes 10 events a month and takes 12; 12 are used/);
    const { eventsPerMonth } = await usage();
    assert.deepEqual([eventsPerMonth.percent, eventsPerMonth.refusedAbove], [120, 12]);
  });

  it("of one tenant refuses nobody else, in the same commit either", async () => {
    const other = await aTenant(api);
    await allow(1);
    const answers = await Promise.all([
      batch([event("ada"), event("ada")]),
      api.post("/api/v1/events", event("bo"), { key: other.key }),
      send(event("ada")),
    ]);
    assert.deepEqual(pluck(answers, "status"), [402, 200, 200]);
    assert.deepEqual([await events(), await events(other)], [1, 1]);
  });

  it("is shown of members, projects and webhooks", async () => {
    const { members, projects, webhooks } = await usage();
    assert.deepEqual([members.used, projects.used, webhooks.used], [1, 1, 0]);
    assert.deepEqual([webhooks.limit, members.limit, members.percent], [50, null, null]);
  });

  it("plans are public, with what they include", async () => {
    const { data } = must(await api.get("/api/v1/billing/plans"), 200);
    assert.deepEqual(
      data.map(
        ({
          plan,
          limits,
          eventsRefusedAbove,
        }: {
          plan: string;
          limits: { eventsPerMonth: number };
          eventsRefusedAbove: number;
        }) => [plan, limits.eventsPerMonth, eventsRefusedAbove],
      ),
      [
        ["FREE", 50_000, 50_000],
        ["STARTER", 500_000, 600_000],
        ["PRO", 5_000_000, 6_000_000],
        ["ENTERPRISE", null, null],
      ],
    );
    assert.deepEqual(data[2].features, ["webhooks", "customDomains"]);
  });
});
