import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { anAsker, type Past } from "../support/analytics/histories.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

type Point = { date: string; start: string; value: number | null; complete: boolean; partial?: true };
type Series = { metric: string; breakdown: string | null; total: number | null; points: Point[] };

const HOURS = { interval: "hour", from: "2025-10-01", to: "2026-11-01" };

describe("the trends of analytics", () => {
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));

  const series = async (query: Record<string, string>): Promise<Series[]> =>
    (await asker.ask("trends", { asOf: "2026-11-01T00:00:00Z", ...query })).series;
  const totals = (all: readonly Series[]) =>
    all.map(({ metric, breakdown, total }) => [metric, breakdown, total]);
  it("have the hours that a day has, and no others", async () => {
    await asker.store([
      ["ada", "seen", "2026-10-25T00:30:00Z"],
      ["ada", "seen", "2026-10-25T01:30:00Z"],
    ]);
    const hours = async (day: string, timezone: string): Promise<Point[]> =>
      (await series({ from: day, to: day, timezone, interval: "hour", metric: "events" }))[0]!.points;
    const back = await hours("2026-10-25", "Europe/Berlin");
    assert.equal(back.length, 25);
    assert.deepEqual(
      back.slice(1, 5).map(({ date, value }) => [date.slice(11), value]),
      [
        ["01:00", 0],
        ["02:00", 1],
        ["02:00", 1],
        ["03:00", 0],
      ],
    );
    assert.equal((await hours("2026-03-29", "Europe/Berlin")).length, 23);
    const forward = await hours("2025-10-05", "Australia/Lord_Howe");
    assert.deepEqual(
      forward.slice(1, 4).map(({ date }) => date.slice(11)),
      ["01:00", "02:30", "03:00"],
    );
  });

  it("mark what was not over at asOf", async () => {
    const query = { metric: "events", from: "2026-03-01", to: "2026-03-03", asOf: "2026-03-02T12:00:00Z" };
    const [events] = await series(query);
    assert.deepEqual(pluck(events!.points, "complete"), [true, false, false]);
  });

  const MATCHES: readonly Past[] = [
    ["ada", "match", "2026-03-02T10:00:00Z", { team: "GER", score: 3, map: { name: "ice" } }],
    ["ada", "match", "2026-03-02T11:00:00Z", { team: "GER", score: 4.5 }],
    ["bob", "match", "2026-03-02T12:00:00Z", { team: "ITA", score: "7" }],
    ["cy", "match", "2026-03-02T12:00:00Z", { team: "FRA" }],
    ["cy", "quiz.done", "2026-03-02T12:00:00Z", { score: 2 }],
  ];
  const DAY = { from: "2026-03-02", to: "2026-03-02" };

  it("count and sum events of a type, broken down and filtered by their properties", async () => {
    await asker.store(MATCHES);
    const read = async (query: Record<string, string>) => totals(await series({ ...DAY, ...query }));
    assert.deepEqual(await read({ metric: "event:match" }), [["event:match", null, 4]]);
    assert.deepEqual(await read({ metric: "sum:match.score" }), [["sum:match.score", null, 7.5]]);
    assert.deepEqual(await read({ metric: "sum:quiz.done:score" }), [["sum:quiz.done:score", null, 2]]);
    assert.deepEqual(await read({ metric: "events", breakdown: "property:team" }), [
      ["events", "GER", 2],
      ["events", "(none)", 1],
      ["events", "FRA", 1],
      ["events", "ITA", 1],
    ]);
    assert.deepEqual(await read({ metric: "activePlayers", breakdown: "property:team", limit: "1" }), [
      ["activePlayers", "(none)", 1],
      ["activePlayers", "(other)", 3],
    ]);
    assert.deepEqual(await read({ metric: "events", breakdown: "property:map.name" }), [
      ["events", "(none)", 4],
      ["events", "ice", 1],
    ]);
    assert.deepEqual(await read({ metric: "activePlayers", breakdown: "eventType" }), [
      ["activePlayers", "match", 3],
      ["activePlayers", "quiz.done", 1],
    ]);
    const filtered = { metric: "events", "filter[properties.team]": "GER,ITA", "filter[eventType]": "match" };
    assert.deepEqual(await read(filtered), [["events", null, 3]]);
    assert.deepEqual(await read({ ...filtered, "filter[properties.score]": "4.5" }), [["events", null, 1]]);
    const spaced = { metric: "events, event:match", "filter[properties.team]": "GER, ITA" };
    assert.deepEqual(await read(spaced), [
      ["events", null, 3],
      ["event:match", null, 3],
    ]);
  });

  it("sum fractions without digits that no value had, and take the longest type with a path", async () => {
    const type = "t".repeat(100);
    await asker.store([
      ["ada", type, "2026-03-02T10:00:00Z", { score: 0.1 }],
      ["ada", type, "2026-03-02T11:00:00Z", { score: 0.2 }],
    ]);
    const [sum] = await series({ ...DAY, metric: `sum:${type}:score`, interval: "day" });
    assert.deepEqual([sum!.total, sum!.points[0]!.value], [0.3, 0.3]);
    assert.equal((await series({ ...DAY, metric: `event:${type}` }))[0]!.total, 2);
  });

  it("are broken down by the segments that players are in", async () => {
    const { key } = asker.tenant;
    await asker.store(MATCHES);
    const segment = { key: "vip", name: "VIP", kind: "STATIC" };
    must(await api.post("/api/v1/segments", segment, { key }), 201);
    const { id } = must(await api.get("/api/v1/players/ext:ada", { key }), 200);
    must(await api.post("/api/v1/segments/vip/members", { playerIds: [id] }, { key }), 200);
    const read = await series({ ...DAY, metric: "events", breakdown: "segment" });
    assert.deepEqual(totals(read), [
      ["events", "(none)", 3],
      ["events", "vip", 2],
    ]);
  });

  it("have hostile values as what they are: text", async () => {
    const hostile = `x'; drop table players; --`;
    await asker.store([["ada", "seen", "2026-03-02T10:00:00Z", { [hostile]: hostile, "{a,b}": 1 }]]);
    const read = async (query: Record<string, string>) => totals(await series({ ...DAY, ...query }));
    const broken = await read({ metric: "events", breakdown: `property:${hostile}` });
    assert.deepEqual(broken, [["events", hostile, 1]]);
    assert.deepEqual(await read({ metric: "sum:seen.{a,b}" }).catch(() => "refused"), "refused");
    assert.deepEqual(await read({ metric: "events", [`filter[properties.${hostile}]`]: hostile }), [
      ["events", null, 1],
    ]);
  });

  it("and cohorts sum no number beyond 1e60, of which two could have no sum", async () => {
    const numbers = [1.7e308, 1.7e308, -1.7e308, 1e61, 1e60, 2];
    await asker.store(
      numbers.map((big, i) => [`user-${i}`, "num", `2026-03-02T10:0${i}:00Z`, { big }] as const),
    );
    const [sum] = await series({ ...DAY, metric: "sum:num.big" });
    assert.equal(sum!.total, 1e60);
    const broken = await series({ ...DAY, metric: "sum:num.big", breakdown: "property:big" });
    assert.ok(broken.some(({ total }) => total === 1e60));
    const weeks = { from: "2026-03-02", to: "2026-03-08", asOf: "2026-11-01T00:00:00Z" };
    const { cohorts } = await asker.ask("cohorts", { ...weeks, metric: "sum:num.big" });
    assert.equal(cohorts.length, 1);
  });

  it("and cohorts keep the last digits of large sums", async () => {
    const large = 1_000_000_000_001;
    await asker.store([["ada", "num", "2026-03-02T10:00:00Z", { large }]]);
    const [sum] = await series({ ...DAY, metric: "sum:num.large", cumulative: "true" });
    assert.deepEqual([sum!.total, sum!.points[0]!.value], [large, large]);
    const day = { ...DAY, asOf: "2026-11-01T00:00:00Z", unit: "day", periods: "0" };
    const { cohorts } = await asker.ask("cohorts", { ...day, metric: "sum:num.large" });
    assert.deepEqual(cohorts[0].values, [large]);
  });

  it("are empty where the compared range had not begun when as much of this one had passed", async () => {
    const names = ["mau", "stickiness", "activePlayers", "events", "matches", "currencyGranted:coins"];
    const query = { from: "2026-11-10", to: "2026-11-19", timezone: "UTC", metric: names.join(",") };
    for (const compare of ["previous_period", "previous_week", "previous_year"])
      for (const interval of ["day", "week"]) {
        const found = await series({ ...query, compare, interval });
        assert.deepEqual(
          pluck(found, "metric", "total"),
          names.map((name) => [name, name === "stickiness" ? null : 0]),
        );
      }
  });

  it("are refused where they make no sense, with the field", async () => {
    const refused: [Record<string, string>, field: string][] = [
      [{}, "metric"],
      [{ metric: "sales" }, "metric"],
      [{ metric: "event:" }, "metric"],
      [{ metric: "sum:match" }, "metric"],
      [{ metric: "sum:match.a..b" }, "metric"],
      [{ metric: Array(11).fill("events").join(",") }, "metric"],
      [{ metric: "events", interval: "minute" }, "interval"],
      [{ metric: "events", interval: "hour", from: "2020-01-01", to: "2026-01-01" }, "interval"],
      [{ metric: "wau", interval: "hour" }, "interval"],
      // 9,552 points, of up to 6 series in two ranges.
      [
        { metric: "events", breakdown: "property:v", limit: "5", compare: "previous_period", ...HOURS },
        "interval",
      ],
      [{ metric: "events", breakdown: "colour" }, "breakdown"],
      [{ metric: "xpGranted", breakdown: "eventType" }, "breakdown"],
      [{ metric: "xpGranted", "filter[eventType]": "a" }, "filter"],
      [{ metric: "activePlayers", cumulative: "true" }, "cumulative"],
      [{ metric: "events", "filter[colour]": "red" }, "filter"],
      [{ metric: "events", "filter[properties.a.b.c.d.e.f.g.h.i]": "1" }, "filter"],
      [{ metric: "events", limit: "1000" }, "limit"],
      [{ metric: "events", to: "2029-01-01" }, "to"],
    ];
    for (const [query, field] of refused) {
      const answer = await asker.tryAsk("trends", query);
      assertError(answer, 400);
      assert.ok(answer.body.error.details[0].field.startsWith(field), JSON.stringify([query, answer.body]));
    }
  });
});
