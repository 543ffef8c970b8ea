import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { aGame } from "../support/app/game.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const DAY = { type: "CALENDAR", unit: "DAY", timezone: "PLAYER" };
const wins = { eventTypes: ["won"], aggregate: "count" };

describe("the metrics of a player", () => {
  let ada: string;
  const api = madeOnce(startApp);
  const game = madeOnce(() => aGame(api));
  before(async () => {
    ada = await game.player("ada");
    await game.make("/rules", {
      key: "wins",
      name: "Wins",
      triggers: [{ kind: "EVENT", eventTypes: ["won"] }],
      metrics: { best: { eventTypes: ["won"], aggregate: "max", property: "score" } },
      conditions: {
        all: [{ type: "event_aggregate", metric: { ...wins, window: DAY }, op: "gte", value: 1 }],
      },
      actions: [{ type: "grant_xp", amount: { metric: "best" } }],
    });
    must(await game.post("/rules/wins/publish"), 200);
    await game.make("/badges", {
      key: "winner",
      name: "Winner",
      progressMetric: { ...wins, window: DAY },
      tiers: [{ tier: 1, name: "One", threshold: 100 }],
    });
  });

  type Shown = { id: string; metric: { aggregate: string }; value: number | null };
  const byAggregate = (data: readonly Shown[]): Omit<Shown, "id">[] =>
    data
      .map(({ id: _id, ...shown }) => shown)
      .toSorted((a, b) => (a.metric.aggregate < b.metric.aggregate ? -1 : 1));

  it("are the counters that rules, badges and segments read, each once, with who reads them", async () => {
    const none = must(await game.get(`/players/${ada}/metrics`), 200);
    assert.deepEqual(pluck(byAggregate(none.data), "value"), [0, null]);
    await game.track("ada", "won", { score: 7 });
    await game.track("ada", "won", { score: 3 });
    const { data, pagination } = must(await game.get("/players/ext:ada/metrics"), 200);
    assert.deepEqual(pagination, { page: 1, limit: 20, total: 2, totalPages: 1 });
    const [count, best] = byAggregate(data);
    assert.deepEqual(count, {
      metric: { ...wins, window: DAY },
      value: 2,
      readBy: [
        { kind: "rule", key: "wins" },
        { kind: "badge", key: "winner" },
      ],
    });
    assert.deepEqual(best, {
      metric: { eventTypes: ["won"], aggregate: "max", property: "score", window: { type: "LIFETIME" } },
      value: 7,
      readBy: [{ kind: "rule", key: "wins" }],
    });
    assert.equal(must(await game.get(`/players/${ada}`), 200).xp, 14);
  });
});
