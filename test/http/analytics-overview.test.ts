import { sql } from "kysely";
import assert from "node:assert/strict";
import { anAsker, markEvent } from "../support/analytics/histories.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { aGame } from "../support/app/game.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { pastMidnight } from "../support/eventually.ts";
import { exported, trackAll } from "../support/data/data.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { playersOf } from "../support/players/players.ts";
import { pluck } from "../support/pluck.ts";

const MARCH = { from: "2026-03-01", to: "2026-03-31" };

const AT = "2026-03-02T10:00:00.000Z";

// oxlint-disable-next-line typescript/no-explicit-any -- rows of every report
type Shown = any;

describe("exports of retention, cohorts and funnels", () => {
  const api = madeOnce(startApp);

  const event = (more: object = {}) => ({ externalUserId: "ann", eventType: "quiz", timestamp: AT, ...more });
  const get = (query: Record<string, string>, key: string) =>
    api.get(`/api/v1/analytics/export?${new URLSearchParams(query).toString()}`, { key });

  it("say what questions of returns say", async () => {
    const tenant = await aTenant(api);
    await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { analyticsHistoryDays: null });
    await trackAll(api, tenant, [
      event(),
      event({ eventType: "won", timestamp: "2026-03-03T10:00:00Z", properties: { map: "ice" } }),
      event({ externalUserId: "bob", timestamp: "2026-03-09T10:00:00Z" }),
    ]);
    const asked = { ...MARCH, asOf: "2026-11-01T00:00:00Z" };
    const ask = async (path: string, query: Record<string, string>) => {
      const text = new URLSearchParams({ ...asked, ...query }).toString();
      return must(await api.get(`/api/v1/analytics/${path}?${text}`, { key: tenant.key }), 200);
    };
    const rowsOf = async (report: string, query: Record<string, string>) =>
      JSON.parse(await exported(api, tenant, { report, ...asked, ...query })) as Shown[];
    const returns = { offsets: "0,1,7" };
    const { cohorts } = await ask("retention", returns);
    assert.deepEqual(
      await rowsOf("retention", returns),
      cohorts.flatMap(({ period, size, cells }: Shown) =>
        cells.map((cell: Shown) => ({ period, size, until: null, ...cell })),
      ),
    );
    const weekly = { periods: "2", metric: "sum:won.score" };
    const table = await ask("cohorts", weekly);
    assert.deepEqual(
      await rowsOf("cohorts", weekly),
      table.cohorts.flatMap(({ period, label, size, values, complete }: Shown) =>
        values.map((value: number, k: number) => ({ period, label, size, k, value, complete: complete[k] })),
      ),
    );
    const steps = { steps: "quiz,won", window: "2d", breakdown: "map" };
    const funnel = await ask("funnels", steps);
    const rows = await rowsOf("funnels", steps);
    assert.deepEqual(
      pluck(
        rows.filter(({ breakdown }) => breakdown === null),
        "index",
        "players",
      ),
      pluck(funnel.steps, "index", "players"),
    );
    assert.deepEqual(
      pluck(
        rows.filter(({ breakdown }) => breakdown === "(none)"),
        "players",
      ),
      funnel.breakdown[0].players,
    );
    assertError(await get({ report: "funnels", steps: "quiz" }, tenant.key), 400);
    assertError(await get({ report: "retention", steps: "quiz,won" }, tenant.key), 400);
  });
});

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
    assert.deepEqual(await values({ ...WEEK, activeEvents: "won, seen" }, names), [3, 2, 1, 4]);
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

  it("compares what happened, too, with ranges that touch, that overlap and that do neither", async () => {
    const { projectId } = asker.tenant;
    const times = ["02-22T23:59", "02-23T00:00", "02-25T11:59", "02-25T12:01", "03-01T10:00", "03-01T12:00"];
    const all = [...times, "03-02T00:00", "03-04T11:59", "03-05T10:00"].map((time) => `2026-${time}:00Z`);
    await asker.store(all.map((at, i) => [`p${i % 3}`, "seen", at]));
    // At each time a player sends a message, and begins a quest, which every other one completes on March 3.
    await api.app.transact(({ db }) =>
      sql`
        with t as (
          select e.occurred_at as at, row_number() over (order by e.occurred_at) as n, p.id
          from tracked_events e join players p using (project_id, external_user_id)
          where project_id = ${projectId}::uuid),
        sent as (
          insert into chat_messages (project_id, channel_id, seq, id, sender_id, type, content, moderation, created_at)
          select ${projectId}::uuid, ${projectId}::uuid, n, gen_random_uuid(), id, 'TEXT', 'hi', 'VISIBLE', at from t)
        insert into player_quests (project_id, player_id, quest_key, cycle_key, id, quest_version, state, percent,
          started_at, started_by, completed_at, completions, doc, is_latest, is_live, updated_at)
        select ${projectId}::uuid, id, 'q' || n, 'ONCE', gen_random_uuid(), 1, 'IN_PROGRESS', 0, at, 'API',
          case when n % 2 = 0 then greatest(at, '2026-03-03') end, 0, '{}', true, true, at from t`.execute(
        db,
      ),
    );
    for (const [range, compared] of [
      [WEEK, { compare: "previous_period" }],
      [{ ...WEEK, asOf: "2026-03-04T12:00:00Z" }, { compare: "previous_period" }],
      [{ ...WEEK, to: "2026-03-04", asOf: "2026-03-04T12:00:00Z" }, { compare: "previous_period" }],
      [{ ...WEEK, to: "2026-03-14" }, { compare: "previous_week" }],
      [WEEK, { compare: "custom", compareFrom: "2026-02-21", compareTo: "2026-02-25" }],
    ] as const) {
      const { metrics, comparison } = await asker.ask("overview", { ...range, ...compared });
      const own = await asker.ask("overview", { ...range, compare: "none" });
      const { start: from, end: to } = comparison;
      const other = await asker.ask("overview", { ...range, from, to, compare: "none" });
      assert.ok(metrics.messages.previous > 0 && metrics.questsStarted.previous > 0);
      for (const name of [
        "messages",
        "messageSenders",
        "questsStarted",
        "questsCompleted",
        "questCompletionRate",
      ]) {
        const { value, previous, series } = metrics[name];
        assert.deepEqual([value, series], [own.metrics[name].value, own.metrics[name].series], name);
        assert.equal(previous, other.metrics[name].value, name);
      }
    }
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
    const job = must(await game.post(`/events/${sent.eventId}/revert`, { reason: "test" }), 200);
    await playersOf(api, game.tenant).resultOf(job.id);
    assert.deepEqual(await gains(), [[0, 120], 1, 1, 5]);
  });
});

describe("a question of analytics", () => {
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));

  it("takes the range as a period, as dates or as instants", async () => {
    const asOf = "2026-05-20T10:00:00Z";
    const bounds = async (query: Record<string, string>) => {
      const { range } = await asker.ask("overview", { compare: "none", asOf, ...query });
      return [range.from, range.to];
    };
    await asker.store([["ada", "seen", "2025-11-30T23:30:00Z"]]);
    const periods: Record<string, [string, string]> = {
      today: ["2026-05-20", "2026-05-20"],
      yesterday: ["2026-05-19", "2026-05-19"],
      "7d": ["2026-05-14", "2026-05-20"],
      "30d": ["2026-04-21", "2026-05-20"],
      "90d": ["2026-02-20", "2026-05-20"],
      mtd: ["2026-05-01", "2026-05-20"],
      qtd: ["2026-04-01", "2026-05-20"],
      ytd: ["2026-01-01", "2026-05-20"],
      "12mo": ["2025-06-01", "2026-05-20"],
      all: ["2025-11-30", "2026-05-20"],
    };
    for (const [period, expected] of Object.entries(periods))
      assert.deepEqual(await bounds({ period }), expected, period);
    assert.deepEqual(await bounds({ period: "all", timezone: "Europe/Berlin" }), [
      "2025-12-01",
      "2026-05-20",
    ]);
    assert.deepEqual(await bounds({}), periods["30d"]);
    const { range } = await asker.ask("overview", {
      from: "2026-03-02T12:00:00Z",
      to: "2026-03-03T14:00:00+02:00",
    });
    assert.deepEqual(
      [range.start, range.end, range.days],
      ["2026-03-02T12:00:00.000Z", "2026-03-03T12:00:00.000Z", 2],
    );
  });

  it("refuses what is no range, zone, moment or comparison, and names the field", async () => {
    const refused: [Record<string, string>, field: string][] = [
      [{ from: "2026-03-08", to: "2026-03-02" }, "to"],
      [{ from: "1900-01-01", to: "2026-03-02" }, "from"],
      [{ from: "2026-02-30" }, "from"],
      [{ from: "0000-01-01", to: "2026-03-02" }, "from"],
      [{ from: "yesterday" }, "from"],
      [{ to: "2026-03-02T12:00:00" }, "to"],
      [{ to: "9999-12-31" }, "to"],
      [{ period: "7d", from: "2026-03-02" }, "period"],
      [{ period: "1d" }, "period"],
      [{ timezone: "Mars/Olympus" }, "timezone"],
      [{ timezone: "+02:00" }, "timezone"],
      [{ asOf: "2126-01-01T00:00:00Z" }, "asOf"],
      [{ asOf: "2026-01-01" }, "asOf"],
      [{ compare: "custom" }, "compareFrom"],
      [{ compareFrom: "2026-01-01" }, "compare"],
      [{ compare: "previous_moon" }, "compare"],
      [{ activeEvents: "" }, "activeEvents"],
      [{ weekStart: "friday" }, "weekStart"],
      [{ colour: "red" }, "colour"],
    ];
    for (const [query, field] of refused) {
      const answer = await asker.tryAsk("overview", query);
      assertError(answer, 400);
      assert.match(answer.body.error.details[0].field, new RegExp(`^${field}`), JSON.stringify(query));
    }
  });

  it("reaches as far back as the plan shows, and no further", async () => {
    const { tenantId } = asker.tenant;
    await putOnPlan(api, tenantId, "FREE");
    const { range } = await asker.ask("overview");
    assert.equal(range.days, 7);
    const first = await asker.ask("overview", { period: "all" });
    assert.equal(first.range.days, 1);
    await asker.store([["ada", "seen", "2020-01-01T00:00:00Z"]]);
    assert.equal((await asker.ask("overview", { period: "all" })).range.days, 7);
    assertError(await asker.tryAsk("overview", { period: "30d" }), 402, "PLAN_LIMIT_EXCEEDED");
    assert.equal((await asker.ask("overview", { period: "7d" })).range.days, 7);
  });

  it("comes from memory while nothing happens, and anew as soon as something does", async () => {
    const asked = async () => (await asker.tryAsk("overview", WEEK)).body;
    const [first, second] = [await asked(), await asked()];
    assert.deepEqual([first.cache.hit, second.cache.hit], [false, true]);
    assert.deepEqual({ ...second, cache: first.cache }, first);
    await asker.store([["ada", "seen", "2026-03-05T10:00:00Z"]]);
    const third = await asked();
    assert.deepEqual([third.cache.hit, third.metrics.events.value], [false, 1]);
  });

  it("says by its ETag whether it has changed", async () => {
    const asked = (etag: string) => asker.tryAsk("overview", WEEK, { "If-None-Match": etag });
    const etag = (await asker.tryAsk("overview", WEEK)).headers.get("etag")!;
    assert.equal((await asked(etag)).status, 304);
    await asker.store([["ada", "seen", "2020-03-05T10:00:00Z"]]);
    assert.equal((await asked(etag)).status, 200);
  });
});
