import assert from "node:assert/strict";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

type Body = Record<string, unknown>;

const DAY_MS = 86_400_000;

describe("conditions of rules", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const post = (path: string, body: unknown): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key: tenant.key });
  const define = async (path: string, body: Body): Promise<void> => {
    const made = await post(path, body);
    assert.equal(made.status, 201, JSON.stringify(made.body));
  };
  const publish = async (conditions: Body[], more: Body = {}): Promise<void> => {
    const rule = {
      key: "counted",
      name: "Counted",
      triggers: [{ kind: "EVENT", eventTypes: ["lesson.completed"] }],
      conditions: { all: conditions },
      actions: [{ type: "grant_xp", amount: 10 }],
      ...more,
    };
    const created = await post("/rules", rule);
    assert.equal(created.status, 201, JSON.stringify(created.body));
    const published = await post(`/rules/${created.body.id}/publish`, {});
    assert.equal(published.status, 200, JSON.stringify(published.body));
  };
  const track = async (events: Body[]): Promise<void> => {
    const all = events.map((event) => ({ externalUserId: "u1", eventType: "lesson.completed", ...event }));
    for (const event of all) assert.equal((await post("/events?wait=true", event)).body.status, "PROCESSED");
  };
  const xp = async (user = "u1"): Promise<number> =>
    (await api.get(`/api/v1/players/ext:${user}`, { key: tenant.key })).body.xp;

  const metric = (part: Body = {}) => ({ eventTypes: ["lesson.completed"], aggregate: "count", ...part });
  const aggregate = (value: unknown, part: Body = {}, op = "gte") => ({
    type: "event_aggregate",
    metric: metric(part),
    op,
    value,
  });

  it("count a player's events over many batches, each player's for itself", async () => {
    await publish([aggregate(3)]);
    await track([{}, {}]);
    assert.equal(await xp(), 0);
    await track([{ externalUserId: "u2" }, {}]);
    assert.equal(await xp(), 10, "the third one counts itself");
    assert.equal(await xp("u2"), 0);
  });

  it("aggregate a property by a filter, in the window of the event's own time", async () => {
    const window = { type: "CALENDAR", unit: "DAY", timezone: "PROJECT" };
    const filter = { none: [{ path: "kind", op: "eq", value: "trial" }] };
    await publish([aggregate(100, { aggregate: "sum", property: "score", window, filter })]);
    const at = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString();
    await track([
      { timestamp: at(2), properties: { score: 60 } },
      { timestamp: at(2), properties: { score: 90, kind: "trial" } },
      { timestamp: at(1), properties: { score: 60 } },
    ]);
    assert.equal(await xp(), 0, "no day has 100");
    await track([{ timestamp: at(2), properties: { score: 40 } }]);
    assert.equal(await xp(), 10, "late, and in its own day");
  });

  it("see balances, and hold one value of the player against another", async () => {
    await define("/currencies", { key: "gold", name: "Gold", initialBalance: 5 });
    await publish([
      { type: "player_property", field: "currencies.gold", op: "gte", value: { $ref: "player.level" } },
      { type: "player_property", field: "currencies.gold", op: "lte", value: 5 },
    ]);
    await track([{}]);
    assert.equal(await xp(), 10);
  });

  it("of other definitions have to name ones that are there", async () => {
    const created = await post("/rules", {
      key: "named",
      name: "Named",
      triggers: [{ kind: "EVENT", eventTypes: ["a"] }],
      conditions: {
        all: [
          { type: "segment", segmentKeys: ["nobody"] },
          { any: [{ type: "streak", streakKey: "never", op: "gte", value: 1 }] },
        ],
      },
      actions: [{ type: "grant_xp", amount: 1 }],
    });
    const refused = await post(`/rules/${created.body.id}/publish`, {});
    assert.equal(refused.status, 400);
    assert.deepEqual(
      refused.body.error.details.map(({ field }: { field: string }) => field),
      ["conditions.all.0.segmentKeys", "conditions.all.1.any.0.streakKey"],
    );
  });

  it("are refused at their place where they are wrong or not available yet", async () => {
    const answer = await post("/rules", {
      key: "wrong",
      name: "Wrong",
      triggers: [{ kind: "EVENT", eventTypes: ["a"] }],
      conditions: {
        all: [
          { type: "leaderboard_rank", leaderboardKey: "top", measure: "rank", op: "lte", value: 10 },
          aggregate(5, { aggregate: "sum" }),
          aggregate(2_000, { aggregate: "distinct", property: "level" }),
          aggregate(5, { filter: { any: [{ path: "a.__proto__", op: "exists" }] } }),
        ],
      },
      actions: [{ type: "grant_xp", amount: 1 }],
    });
    assert.equal(answer.status, 400);
    const details = answer.body.error.details.map(
      ({ field, message }: { field: string; message: string }) => `${field}: ${message}`,
    );
    assert.deepEqual(details.slice(0, 3), [
      "conditions.all.0.measure: rank is not available yet",
      "conditions.all.1.metric.property: sum needs a property",
      "conditions.all.2.value: distinct counts to 1000",
    ]);
    assert.match(details[3], /^conditions\.all\.3\.metric\.filter\.any\.0\.path: must be a path/);
  });

  it("show in a simulation what was expected and what was there, changing nothing", async () => {
    await publish([aggregate(3), { type: "segment", segmentKeys: ["vip"], match: "NONE" }], {
      conditions: { any: [aggregate(3), aggregate(50, { aggregate: "max", property: "score" })] },
    });
    await track([{ properties: { score: 20 } }]);
    const simulate = () =>
      post("/rules/simulate", {
        event: { eventType: "lesson.completed", properties: { score: 40 } },
        player: { externalUserId: "u1" },
      });
    const first = await simulate();
    assert.equal(first.status, 200, JSON.stringify(first.body));
    const [rule] = first.body.rules;
    assert.equal(rule.fired, false);
    assert.deepEqual(
      rule.conditions.children.map(({ expected, actual }: Body) => [expected, actual]),
      [
        [3, 2],
        [50, 40],
      ],
    );
    const { evaluatedAt: _, ...again } = (await simulate()).body;
    assert.deepEqual(again.rules[0].conditions, rule.conditions);
  });
});
