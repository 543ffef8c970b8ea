import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { aGame } from "../support/app/game.ts";
import { anAsker, markEvent } from "../support/analytics/questions.ts";
import { must } from "../support/http/client.ts";
import { pastMidnight } from "../support/clock-edges.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const WEEK = { from: "2026-03-02", to: "2026-03-08", asOf: "2026-04-01T00:00:00Z" };

describe("the overview of analytics", () => {
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));

  const values = async (query: Record<string, string>, names: readonly string[]): Promise<unknown[]> => {
    const { metrics } = await asker.ask("overview", query);
    return names.map((name) => metrics[name].value);
  };

  it("is zeros for a project without events, and null where there is nothing to divide by", async () => {
    const { metrics, range, comparison } = await asker.ask("overview");
    assert.equal(range.days, 30);
    assert.equal(comparison.mode, "previous_period");
    for (const [name, metric] of Object.entries<{ value: number | null; series?: number[] }>(metrics)) {
      if (name === "currencyGranted") continue;
      const isShare = /Rate$|^eventsPer|^playersPer|^stickiness$/.test(name);
      assert.equal(metric.value, isShare ? null : 0, name);
      if (metric.series) assert.deepEqual(metric.series, Array(30).fill(0), name);
    }
    assert.deepEqual(metrics.currencyGranted, {});
    assert.deepEqual([metrics.events.changePct, metrics.events.trend], [0, "flat"]);
  });

  it("tells new players from those who return, and compares with the days before", async () => {
    await asker.store([
      ["ada", "seen", "2026-01-05T10:00:00Z"],
      ["ada", "seen", "2026-03-02T00:00:00Z"],
      ["bob", "seen", "2026-03-03T12:00:00Z"],
      ["bob", "won", "2026-03-03T12:00:00Z"],
      ["cy", "seen", "2026-02-24T12:00:00Z"],
      ["dan", "seen", "2026-03-08T23:59:59.999Z"],
      ["eve", "seen", "2026-03-09T00:00:00Z"],
    ]);
    const { metrics, comparison } = await asker.ask("overview", WEEK);
    const { activePlayers, newPlayers, returningPlayers, totalPlayers, events } = metrics;
    assert.deepEqual(
      [comparison.from, comparison.to, comparison.partial],
      ["2026-02-23", "2026-03-01", false],
    );
    assert.deepEqual(activePlayers, {
      value: 3,
      previous: 1,
      change: 2,
      changePct: 200,
      trend: "up",
      goodDirection: "up",
      series: [1, 1, 0, 0, 0, 0, 1],
    });
    assert.deepEqual(
      [newPlayers.value, newPlayers.previous, newPlayers.series],
      [2, 1, [0, 1, 0, 0, 0, 0, 1]],
    );
    assert.deepEqual(
      [returningPlayers.value, returningPlayers.previous, returningPlayers.trend],
      [1, 0, "new"],
    );
    assert.deepEqual([totalPlayers.value, totalPlayers.previous], [4, 2]);
    assert.deepEqual([events.value, events.series], [4, [1, 2, 0, 0, 0, 0, 1]]);
    assert.equal(metrics.eventsPerActivePlayer.value, 1.3333);
    assert.deepEqual([metrics.wau.value, metrics.mau.value], [3, 4]);
    assert.equal(metrics.avgDau.value, 0.4286);
    assert.equal(metrics.stickiness.value, 0.033333);
  });

  it("counts a player as active by the events that are named, and as new by any", async () => {
    await asker.store([
      ["ada", "seen", "2026-03-02T10:00:00Z"],
      ["ada", "won", "2026-03-03T10:00:00Z"],
      ["bob", "seen", "2026-03-03T10:00:00Z"],
      ["cy", "won", "2026-02-03T10:00:00Z"],
      ["cy", "won", "2026-03-04T10:00:00Z"],
    ]);
    const names = ["activePlayers", "newPlayers", "returningPlayers", "events"];
    assert.deepEqual(await values(WEEK, names), [3, 2, 1, 4]);
    assert.deepEqual(await values({ ...WEEK, activeEvents: "won" }, names), [2, 2, 1, 4]);
  });

  it("goes by local days, also of 23, 25 and 23.5 hours, and where midnight does not exist", async () => {
    const cases = [
      // Clocks go forward at 02:00, and back at 03:00.
      ["Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00.000Z", "2026-03-29T22:00:00.000Z"],
      ["Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00.000Z", "2026-10-25T23:00:00.000Z"],
      ["Australia/Lord_Howe", "2025-10-05", "2025-10-04T13:30:00.000Z", "2025-10-05T13:00:00.000Z"],
      ["Asia/Kolkata", "2026-03-02", "2026-03-01T18:30:00.000Z", "2026-03-02T18:30:00.000Z"],
      // The day begins at 01:00.
      ["Africa/Cairo", "2026-04-24", "2026-04-23T22:00:00.000Z", "2026-04-24T21:00:00.000Z"],
      ["America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00.000Z", "2018-11-05T02:00:00.000Z"],
    ] as const;
    const before = (time: string): string => new Date(Date.parse(time) - 1).toISOString();
    await asker.store(
      cases.flatMap(([zone, , start, end]) => [
        [`${zone} a`, zone, before(start)] as const,
        [`${zone} b`, zone, start] as const,
        [`${zone} c`, zone, before(end)] as const,
        [`${zone} d`, zone, end] as const,
      ]),
    );
    for (const [timezone, day, start, end] of cases) {
      const { range, metrics } = await asker.ask("overview", {
        from: day,
        to: day,
        timezone,
        compare: "none",
      });
      assert.deepEqual([range.start, range.end, range.days], [start, end, 1], timezone);
      assert.deepEqual([metrics.events.value, metrics.activePlayers.value], [2, 2], timezone);
    }
  });

  it("counts an event in the day of its time, however late it comes", async () => {
    await asker.store([["ada", "seen", "2026-03-05T10:00:00Z"]]);
    assert.deepEqual(await values(WEEK, ["events", "activePlayers"]), [1, 1]);
    await asker.store([["bob", "seen", "2026-03-04T10:00:00Z"]]);
    assert.deepEqual(await values(WEEK, ["events", "activePlayers"]), [2, 2]);
  });

  it("knows nothing of what is at asOf or later", async () => {
    await asker.store([
      ["ada", "seen", "2026-03-02T10:00:00Z"],
      ["ada", "seen", "2026-03-04T10:00:00.000Z"],
      ["bob", "seen", "2026-03-05T10:00:00Z"],
    ]);
    const asOf = "2026-03-04T10:00:00Z";
    const { metrics, range } = await asker.ask("overview", { ...WEEK, asOf });
    assert.deepEqual([metrics.events.value, metrics.totalPlayers.value, range.complete], [1, 1, false]);
  });

  it("compares a range that is going on with as much of the one before", async () => {
    await asker.store([
      ["ada", "seen", "2026-02-23T10:00:00Z"],
      ["ada", "seen", "2026-02-26T10:00:00Z"],
      ["ada", "seen", "2026-03-02T09:00:00Z"],
    ]);
    const asOf = "2026-03-04T12:00:00Z";
    const { metrics, comparison } = await asker.ask("overview", { ...WEEK, asOf });
    assert.deepEqual([comparison.partial, comparison.end], [true, "2026-02-25T12:00:00.000Z"]);
    assert.deepEqual([metrics.events.value, metrics.events.previous], [1, 1]);
  });

  it("compares with the week before, the year before, and with any other range", async () => {
    const ranges = async (query: Record<string, string>) => {
      const { comparison } = await asker.ask("overview", { ...WEEK, ...query });
      return comparison && [comparison.from, comparison.to];
    };
    assert.deepEqual(await ranges({ compare: "previous_week" }), ["2026-02-23", "2026-03-01"]);
    assert.deepEqual(await ranges({ compare: "previous_year" }), ["2025-03-02", "2025-03-08"]);
    assert.deepEqual(
      await ranges({ compare: "custom", compareFrom: "2025-12-24", compareTo: "2025-12-26" }),
      ["2025-12-24", "2025-12-26"],
    );
    assert.equal(await ranges({ compare: "none" }), null);
    const leap = { from: "2024-02-29", to: "2024-02-29", compare: "previous_year" };
    assert.deepEqual(await ranges(leap), ["2023-02-28", "2023-02-28"]);
  });

  it("counts merged players as one, and no events that were rejected or reverted", async () => {
    const { tenant } = asker;
    await asker.store([
      ["ada", "seen", "2026-03-02T10:00:00Z"],
      ["anon", "seen", "2026-03-02T11:00:00Z"],
      ["rejected", "seen", "2026-03-02T12:00:00Z"],
      ["reverted", "seen", "2026-03-02T13:00:00Z"],
      ["failed", "seen", "2026-03-02T14:00:00Z"],
      ["ada", "system.grant", "2026-03-03T10:00:00Z"],
    ]);
    await markEvent(api, tenant, "rejected", "REJECTED");
    await markEvent(api, tenant, "reverted", "REVERTED");
    await markEvent(api, tenant, "failed", "FAILED");
    const names = ["events", "activePlayers", "newPlayers", "totalPlayers"];
    assert.deepEqual(await values(WEEK, names), [3, 3, 3, 3]);
    const { key } = tenant;
    const source = must(await api.get("/api/v1/players/ext:anon", { key }), 200);
    must(await api.post("/api/v1/players/ext:ada/merge", { sourcePlayerId: source.id }, { key }), 200);
    assert.deepEqual(await values(WEEK, names), [3, 2, 2, 2]);
  });

  it("shows what players gained, at the time of its event, and not what was reverted", async () => {
    await pastMidnight();
    const game = await aGame(api);
    await game.make("/currencies", { key: "coins", name: "Coins" });
    await game.make("/badges", { key: "winner", name: "Winner", tiers: [{ tier: 1, name: "One" }] });
    await game.make("/rules", {
      key: "win",
      name: "Win",
      triggers: [{ kind: "EVENT", eventTypes: ["won"] }],
      actions: [
        { type: "grant_xp", amount: 120 },
        { type: "adjust_currency", currencyKey: "coins", amount: 5 },
        { type: "update_badge", badgeKey: "winner", operation: "AWARD" },
      ],
    });
    must(await game.post("/rules/win/publish"), 200);
    await game.track("ada", "won");
    const yesterday = new Date(Date.now() - 86_400_000).toISOString();
    const late = { externalUserId: "bob", eventType: "won", timestamp: yesterday };
    const sent = must(await game.post("/events?wait=true", late), 200);
    assert.equal(sent.status, "PROCESSED");
    const gains = async () => {
      const { metrics } = must(await game.get("/analytics/overview?period=7d"), 200);
      const { xpGranted, levelUps, badgesEarned, currencyGranted } = metrics;
      return [xpGranted.series.slice(-2), levelUps.value, badgesEarned.value, currencyGranted.coins?.value];
    };
    assert.deepEqual(await gains(), [[120, 120], 2, 2, 10]);
    must(await game.post(`/events/${sent.eventId}/revert`, { reason: "test" }), 200);
    assert.deepEqual(await gains(), [[0, 120], 1, 1, 5]);
  });
});
