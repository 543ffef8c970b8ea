import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { aGame } from "../support/app/game.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("the calendar of a project", () => {
  const api = madeOnce(startApp);
  const game = madeOnce(() => aGame(api));
  const played = async (timestamp: string): Promise<void> => {
    const event = { externalUserId: "ann", eventType: "played", timestamp };
    assert.equal((await game.post("/events?wait=true", event)).body.status, "PROCESSED");
  };

  before(async () => {
    const calendar = { weekStartsOn: 7, dayStartsAtMinutes: 240 };
    const { weekStartsOn, dayStartsAtMinutes } = must(await game.patch("/project-settings", calendar), 200);
    assert.deepEqual({ weekStartsOn, dayStartsAtMinutes }, calendar);
    await game.make("/streaks", {
      key: "daily",
      name: "Daily",
      qualify: { parts: [{ metric: { eventTypes: ["played"], aggregate: "count" } }] },
    });
    await game.make("/rules", {
      key: "first",
      name: "First of the day",
      triggers: [{ kind: "EVENT", eventTypes: ["played"] }],
      actions: [{ type: "grant_xp", amount: 5 }],
      limits: { perPlayer: [{ max: 1, window: "DAY" }] },
    });
    must(await game.post("/rules/first/publish"), 200);
    // Before four it is still the day before.
    for (const time of ["01T03:59", "01T04:00", "02T03:59", "02T04:00"]) await played(`2026-03-${time}:00Z`);
  });

  it("has weeks from Monday or Sunday, and days that begin on a quarter of an hour", async () => {
    for (const settings of [
      { weekStartsOn: 3 },
      { dayStartsAtMinutes: 241 },
      { dayStartsAtMinutes: 1_440 },
      { dayStartsAtMinutes: -15 },
    ])
      assertError(await game.patch("/project-settings", settings), 400);
  });

  it("is that of limits and streaks", async () => {
    assert.equal(must(await game.get("/players/ext:ann"), 200).xp, 15, "once a day, on three days");
    const query = "from=2026-02-27&to=2026-03-03";
    const { data, runs } = must(await game.get(`/players/ext:ann/streaks/daily/history?${query}`), 200);
    assert.deepEqual(pluck(data, "done"), [false, true, true, true, false]);
    assert.deepEqual([runs[0].startedOn, runs[0].endedOn], ["2026-02-28", "2026-03-02"]);
  });

  it("is that of leaderboards as they are made, unless they say otherwise", async () => {
    const board = { name: "Week", metric: { source: "XP" } };
    const asked = { kind: "WEEKLY", timezone: "UTC" };
    const own = await game.make("/leaderboards", { key: "own", ...board, period: asked });
    assert.deepEqual([own.period.weekStartsOn, own.period.dayStartsAtMinutes], [7, 240]);
    const { startsAt } = must(await game.get("/leaderboards/own/periods"), 200).data[0];
    assert.deepEqual([new Date(startsAt).getUTCDay(), startsAt.slice(11)], [0, "04:00:00.000Z"]);
    const monday = { ...asked, weekStartsOn: 1, dayStartsAtMinutes: 0 };
    const other = await game.make("/leaderboards", { key: "other", ...board, period: monday });
    assert.deepEqual([other.period.weekStartsOn, other.period.dayStartsAtMinutes], [1, 0]);
  });

  it("is that of analytics and recaps", async () => {
    const query = "from=2026-03-01&to=2026-03-01";
    const { range, metrics } = must(await game.get(`/analytics/overview?${query}&compare=none`), 200);
    assert.deepEqual([range.start, range.end], ["2026-03-01T04:00:00.000Z", "2026-03-02T04:00:00.000Z"]);
    assert.equal(metrics.events.value, 2);
    const weeks = "from=2026-03-02&to=2026-03-02&metric=events&interval=week";
    const { series } = must(await game.get(`/analytics/trends?${weeks}`), 200);
    assert.equal(series[0].points[0].date, "2026-03-01");
    const recap = must(await game.get("/players/ext:ann/recap?from=2026-02-01&to=2026-04-01"), 200);
    assert.deepEqual([recap.activeDays, recap.bestDay.date], [3, "2026-02-28"]);
  });
});
