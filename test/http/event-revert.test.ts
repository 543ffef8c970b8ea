import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { failed } from "../support/domain/domain.ts";
import { emitted } from "../support/app/outbox.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { endedJob, jobResult } from "../support/app/processed.ts";
import { pluck } from "../support/pluck.ts";

type Line = { id: string; asset: string; amount: number; key: string; reverses: string | null; kind: string };

describe("taking an event back", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    must(await post("/currencies", { key: "coins", name: "Coins" }), 201);
    must(await post("/badges", { key: "hero", name: "Hero" }), 201);
  });

  const get = (path: string, key = tenant.key): Promise<Answer> => api.get(`/api/v1${path}`, { key });
  const post = (path: string, body: unknown, key = tenant.key): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key });
  const rule = async (key: string, ...actions: unknown[]): Promise<void> => {
    const triggers = [{ kind: "EVENT", eventTypes: [key] }];
    must(await post("/rules", { key, name: `Rule ${key}`, triggers, actions }), 201);
    must(await post(`/rules/${key}/publish`, {}), 200);
  };
  const send = async (eventType: string, properties = {}, externalUserId = "ada"): Promise<string> => {
    const { body } = await post("/events?wait=true", { externalUserId, eventType, properties });
    assert.equal(body.status, "PROCESSED", JSON.stringify(body));
    return body.eventId;
  };
  const revert = (id: string, more: object = {}) =>
    post(`/events/${id}/revert`, { reason: "a test", ...more });
  const finished = (jobId: string): Promise<Answer["body"]> => endedJob(api, tenant, jobId);
  const reverted = async (id: string, more: object = {}): Promise<Answer["body"]> =>
    jobResult(api, tenant, must(await revert(id, more), 200).id);
  const lines = (): Promise<Line[]> =>
    api.app.transact(async ({ db }) => {
      const found = await sql<Line>`
        select id, asset, amount::int as amount, idempotency_key as key, reverses, cause->>'kind' as kind
        from ledger_entries where project_id = ${tenant.projectId} order by player_id, seq`.execute(db);
      return found.rows;
    });
  const balance = async (ref = "ext:ada"): Promise<number> =>
    (await get(`/players/${ref}/balances`)).body.data.find(
      (one: { currencyKey: string }) => one.currencyKey === "coins",
    ).balance;
  const told = () => emitted<{ eventId: string }>(api.app, tenant.projectId, "event.reverted");

  it("is done for what a badge has given since it was last revoked, and says what stays", async () => {
    must(
      await post("/rewards", { key: "mug", name: "Mug", kind: "PRIZE", fulfilment: "EXTERNAL", stock: 3 }),
      201,
    );
    const rewards = {
      xp: 20,
      currencies: { coins: 10 },
      rewards: [{ rewardKey: "mug", quantity: 1 }],
      badges: [{ badgeKey: "hero" }],
    };
    const tiers = [
      { tier: 1, rewards: { xp: 7 } },
      { tier: 2, rewards },
    ];
    must(await post("/badges", { key: "cup", name: "Cup", tiers, maxAwards: 9 }), 201);
    must(await post("/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } }), 201);
    must(await post("/players", { externalUserId: "ada" }), 201);
    const path = "/players/ext:ada/badges/cup";
    const revoke = async (body: object) =>
      must(await api.delete(`/api/v1${path}`, { key: tenant.key, body }), 200);
    must(await post(path, {}), 201);
    assert.equal("left" in (await revoke({})), false);
    must(await post(path, { tier: 2 }), 201);
    must(await post("/players/ext:ada/balances/coins/spend", { amount: 4, reason: "spent" }), 201);
    const { reversed, lives, shortfall, left, tier } = await revoke({ takeRewards: true, reason: "cheated" });
    assert.deepEqual(
      { reversed, lives, shortfall, left, tier },
      {
        reversed: { xp: 27, currencies: { coins: 6 } },
        lives: 0,
        shortfall: { "currency:coins": 4 },
        left: ["badge cup: badges given"],
        tier: 0,
      },
    );
    assert.deepEqual([(await get("/players/ext:ada")).body.xp, await balance()], [7, 0]);
    const [{ status }] = (await get("/players/ext:ada/rewards?status=REVOKED")).body.data;
    assert.deepEqual([status, (await get("/rewards/mug/stock")).body.given], ["REVOKED", 0]);
    await eventually(async () => (await get("/leaderboards/xp/players/ext:ada")).body.score === 7);
    assertError(
      await api.delete(`/api/v1${path}`, { key: tenant.key, body: { takeRewards: true } }),
      409,
      "INVALID_STATE",
    );
    must(await post(path, { tier: 2 }), 201);
    assert.deepEqual([(await get("/players/ext:ada")).body.xp, await balance()], [34, 10]);

    await rule("won", { type: "update_badge", badgeKey: "cup", operation: "AWARD", tier: 2 });
    await revoke({ takeRewards: true });
    const event = await send("won");
    assert.equal((await get("/players/ext:ada")).body.xp, 34);
    assert.equal((await revoke({ takeRewards: true })).reversed.xp, 27);
    const result = await reverted(event);
    assert.deepEqual([result.reversed.xp, result.shortfall], [0, {}], "once is enough");
    assert.deepEqual([(await get("/players/ext:ada")).body.xp, await balance()], [7, 0]);
  });

  it("undoes XP, currency, scores and segments by opposite lines, tells it once, and shows it", async () => {
    const event = { eventTypes: ["won"] };
    const boards = [
      { key: "sum", name: "Sum", metric: { source: "EVENT", event, aggregate: "sum", property: "score" } },
      { key: "best", name: "Best", metric: { source: "EVENT", event, aggregate: "max", property: "score" } },
      { key: "xp", name: "XP", metric: { source: "XP" } },
    ];
    for (const board of boards) must(await post("/leaderboards", board), 201);
    const metric = { eventTypes: ["won"], aggregate: "count" };
    const definition = { all: [{ type: "event_aggregate", metric, op: "gte", value: 2 }] };
    must(await post("/segments", { key: "winners", name: "Winners", kind: "DYNAMIC", definition }), 201);
    await rule(
      "won",
      { type: "grant_xp", amount: { $ref: "event.properties.score" } },
      { type: "adjust_currency", currencyKey: "coins", amount: 5 },
      { type: "update_badge", badgeKey: "hero", operation: "AWARD" },
    );
    await send("won", { score: 30 });
    const second = await send("won", { score: 70 });
    assert.equal((await get("/players/ext:ada/segments")).body.data.length, 1);

    const result = await reverted(second);
    assert.deepEqual(result.reversed, {
      xp: 70,
      currencies: { coins: 5 },
      badges: [],
      quests: [],
      scores: ["best", "sum"],
    });
    assert.deepEqual([result.shortfall, result.isReverted, result.players], [{}, true, 1]);
    const { body: player } = await get("/players/ext:ada");
    assert.equal(player.xp, 30);
    assert.equal(await balance(), 5);
    assert.deepEqual((await get("/players/ext:ada/segments")).body.data, []);
    for (const [key, score] of [
      ["sum", 30],
      ["best", 30],
      ["xp", 30],
    ] as const) {
      await eventually(async () => (await get(`/leaderboards/${key}/players/ext:ada`)).body.score === score, {
        label: `${key} shows ${score}`,
      });
    }
    const all = await lines();
    const opposite = all.filter(({ reverses }) => reverses !== null);
    assert.deepEqual(pluck(opposite, "asset", "amount", "kind"), [
      ["XP", -70, "REVERSAL"],
      ["CURRENCY", -5, "REVERSAL"],
    ]);
    for (const { reverses, key, amount } of opposite) {
      assert.equal(key, `rev:${reverses}`);
      assert.equal(all.find(({ id }) => id === reverses)!.amount, -amount);
    }
    const shown = await get(`/events/${second}`);
    assert.deepEqual([shown.body.status, shown.body.error], ["REVERTED", null]);
    const list = await get("/events?status=REVERTED");
    assert.deepEqual(pluck(list.body.data, "id"), [second]);
    assert.deepEqual(pluck(await told(), "eventId"), [second]);
    assert.equal((await get("/players/ext:ada/ledger/verify")).body.valid, true);
  });

  it("is done once, however often it is asked for", async () => {
    await rule("won", { type: "grant_xp", amount: 10 });
    const event = await send("won");
    const answers = await Promise.all([revert(event), revert(event)]);
    for (const { status } of answers) assert.equal(status, 200);
    for (const { body } of answers) await finished(body.id);
    const later = await revert(event);
    assert.ok(answers.some(({ body }) => body.id === later.body.id));
    assert.deepEqual(pluck(await lines(), "amount"), [10, -10]);
    assert.equal((await told()).length, 1);
    assert.equal((await get("/players/ext:ada")).body.xp, 0);
  });

  it("is told to whoever sends the event again, which counts no more", async () => {
    await rule("won", { type: "grant_xp", amount: 10 });
    const event = { externalUserId: "ada", eventType: "won", idempotencyKey: randomUUID() };
    const { body } = await post("/events?wait=true", event);
    assert.equal(body.status, "PROCESSED");
    await reverted(body.eventId);
    const again = must(await post("/events?wait=true", event), 200);
    assert.deepEqual([again.status, again.eventId], ["DUPLICATE", body.eventId]);
    assert.match(again.message, /was accepted before; it was reverted since: .* with another key$/);
    assert.equal((await get("/players/ext:ada")).body.xp, 0);
  });

  it("takes what is left and tells the shortfall, or with REJECT nothing", async () => {
    await rule("won", { type: "adjust_currency", currencyKey: "coins", amount: 10 });
    const event = await send("won");
    must(await post("/players/ext:ada/balances/coins/spend", { amount: 4 }), 201);
    const refused = await finished((await revert(event, { onShortfall: "REJECT" })).body.id);
    assert.equal(refused.status, "FAILED");
    assert.match(refused.error, /4 currency:coins missing/);
    assert.equal(await balance(), 6);
    assert.equal((await get(`/events/${event}`)).body.status, "PROCESSED");
    const result = await reverted(event);
    assert.deepEqual([result.reversed.currencies, result.shortfall], [{ coins: 6 }, { "currency:coins": 4 }]);
    assert.equal(await balance(), 0);
    const [from, to] = [-1, 1].map((days) => new Date(Date.now() + days * 86_400_000).toISOString());
    const recap = must(await get(`/players/ext:ada/recap?from=${from}&to=${to}`), 200);
    assert.deepEqual(recap.currencies, [{ currencyKey: "coins", earned: 0, spent: 4 }]);
  });

  it("reaches other players and cancels what was to come later", async () => {
    await rule(
      "won",
      { type: "grant_xp", amount: 5, target: { externalUserId: { $ref: "event.properties.friend" } } },
      { type: "grant_xp", amount: 1 },
      { type: "grant_xp", amount: 100, delaySeconds: 3_600 },
    );
    await send("seen", {}, "bob");
    const event = await send("won", { friend: "bob" }, "ada");
    await eventually(async () => (await get("/players/ext:bob")).body.xp === 5);
    const list = await get("/events?source=SYSTEM");
    assert.deepEqual(pluck(list.body.data, "eventType", "source", "status"), [
      ["system.delayed_action", "SYSTEM", "PENDING"],
      ["system.grant", "SYSTEM", "PROCESSED"],
    ]);
    const result = await reverted(event);
    assert.deepEqual([result.reversed.xp, result.cancelled, result.players], [6, 1, 2]);
    assert.equal((await get("/players/ext:bob")).body.xp, 0);
    assert.equal((await get("/players/ext:ada")).body.xp, 0);
    const after = await get("/events?source=SYSTEM&status=REVERTED");
    assert.equal(after.body.data.length, 2);
    const waiting = await api.sql`select 1 from event_due where project_id = ${tenant.projectId}`;
    assert.equal(waiting.length, 0);
  });

  it("gives limits back: the player may have it again", async () => {
    const triggers = [{ kind: "EVENT", eventTypes: ["won"] }];
    const limits = {
      perPlayer: [{ max: 1, window: "LIFETIME" }],
      global: [{ max: 2, window: "LIFETIME" }],
      budgets: [{ asset: "xp", max: 20, window: "LIFETIME" }],
    };
    const actions = [{ type: "grant_xp", amount: 10 }];
    must(await post("/rules", { key: "once", name: "Once", triggers, limits, actions }), 201);
    must(await post("/rules/once/publish", {}), 200);
    const first = await send("won");
    await send("won");
    assert.equal((await get("/players/ext:ada")).body.xp, 10);
    await reverted(first);
    await send("won");
    assert.equal((await get("/players/ext:ada")).body.xp, 10);
    await send("won", {}, "bob");
    assert.equal((await get("/players/ext:bob")).body.xp, 10, "global limit and budget were given back too");
    await send("won", {}, "cleo");
    assert.equal((await get("/players/ext:cleo")).body.xp, 0);
    const executions = await api.sql<{ n: number }>`select count(*)::int as n from rule_executions
      where project_id = ${tenant.projectId} and reverted_at is not null`;
    assert.equal(executions[0]!.n, 1);
  });

  it("says what stays: attributes that a rule has set", async () => {
    await rule("won", { type: "update_player", set: { winner: true } });
    const result = await reverted(await send("won"));
    assert.deepEqual(result.left, ["attributes, tags and segments set by rule won"]);
    assert.deepEqual((await get("/players/ext:ada")).body.attributes, { winner: true });
  });

  it("takes an event that waits out of the queue: it never happens", async () => {
    await rule("won", { type: "grant_xp", amount: 10 });
    const id = await send("seen");
    const waiting = randomUUID();
    await api.app.transact(async ({ db }) => {
      await sql`
        insert into tracked_events select project_id, ${waiting}::uuid, external_user_id, 'won', properties,
          occurred_at, received_at, null from tracked_events
        where project_id = ${tenant.projectId} and id = ${id}`.execute(db);
      await sql`
        insert into event_due (project_id, event_id, part, attempts, due_at)
        values (${tenant.projectId}, ${waiting}, 0, 1, now() + interval '1 hour')`.execute(db);
    });
    assert.equal((await get(`/events/${waiting}`)).body.status, "PENDING");
    const result = await reverted(waiting);
    assert.equal(result.isReverted, true);
    assert.equal((await get(`/events/${waiting}`)).body.status, "REVERTED");
    assert.equal((await told()).length, 1);
    assert.equal((await get("/players/ext:ada")).body.xp, 0);
  });

  it("refuses events without effects, and unknown ones", async () => {
    const gone = await failed(api.app, tenant.projectId, await send("won"));
    assertError(await revert(gone), 409, "INVALID_STATE");
    assert.equal((await revert(randomUUID())).status, 404);
    assert.equal((await revert("no-id")).status, 404);
  });
});
