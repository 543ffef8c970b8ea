import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { columnsOf } from "../../src/domain/analytics/exports/columns.ts";
import { fileWriter } from "../../src/domain/analytics/exports/reports.ts";
import { rollUpAll } from "../support/analytics/histories.ts";
import { aKey, aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { aMember } from "../support/app/member.ts";
import { exported, trackAll } from "../support/data/data.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const MARCH = { from: "2026-03-01", to: "2026-03-31" };
const AT = "2026-03-02T10:00:00.000Z";

// oxlint-disable-next-line typescript/no-explicit-any -- rows of every report
type Shown = any;

/** Reads CSV as RFC 4180 says. */
const parseCsv = (text: string): string[][] => {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    row.push(quoted === undefined ? plain! : quoted.replaceAll('""', '"'));
    if (end === ",") continue;
    rows.push(row);
    row = [];
  }
  return rows;
};

describe("exports of analytics as files", () => {
  const api = madeOnce(startApp);

  const aHistory = async (events: readonly object[] = []): Promise<Tenant> => {
    const tenant = await aTenant(api);
    await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { analyticsHistoryDays: null });
    if (events.length > 0) await trackAll(api, tenant, events);
    return tenant;
  };
  const event = (more: object = {}) => ({ externalUserId: "ann", eventType: "quiz", timestamp: AT, ...more });
  const get = (query: Record<string, string>, key: string) =>
    api.get(`/api/v1/analytics/export?${new URLSearchParams(query).toString()}`, { key });

  it("are the events of a range in the order of their time and arrival, in each format", async () => {
    const tenant = await aHistory([
      event({ externalUserId: "bob", timestamp: "2026-03-31T23:59:59.999Z", idempotencyKey: "k1" }),
      event({ externalUserId: "eve", timestamp: "2026-04-01T00:00:00.000Z" }),
      event({ idempotencyKey: "k2", properties: { score: 1, "a.b": 'x,"y"', in: { it: null } } }),
      event({ externalUserId: "zoe", idempotencyKey: "k3" }),
    ]);
    const names = (json: string) =>
      (JSON.parse(json) as { externalUserId: string }[]).map(({ externalUserId }) => externalUserId);
    const query = { report: "events", ...MARCH };
    assert.deepEqual(names(await exported(api, tenant, query)), ["ann", "zoe", "bob"]);
    const lines = (await exported(api, tenant, { ...query, format: "ndjson" })).split("\n");
    assert.deepEqual(JSON.parse(lines[0]!), {
      externalUserId: "ann",
      eventType: "quiz",
      timestamp: AT,
      idempotencyKey: "k2",
      properties: { score: 1, "a.b": 'x,"y"', in: { it: null } },
    });
    assert.equal(lines.length, 4);
    const csv = await exported(api, tenant, { ...query, format: "csv" });
    assert.equal(csv.split("\r\n")[0], "externalUserId,eventType,timestamp,idempotencyKey,properties");
    const flat = parseCsv(await exported(api, tenant, { ...query, format: "csv", flatten: "true" }));
    assert.deepEqual(flat[0]!.slice(4), ["properties.a\\.b", "properties.in.it", "properties.score"]);
    assert.deepEqual(flat[1]!.slice(4), ['x,"y"', "", "1"]);
    const columns = "playerId,properties.score,timestamp";
    const chosen = parseCsv(await exported(api, tenant, { ...query, format: "csv", columns }));
    assert.deepEqual(chosen[1]!.slice(1), ["1", AT]);
    const filtered = { ...query, "filter[properties.score]": "1,2" };
    assert.deepEqual(names(await exported(api, tenant, filtered)), ["ann"]);
  });

  it("have a header or an empty array where there is nothing", async () => {
    const tenant = await aHistory();
    const query = { report: "events", ...MARCH };
    assert.equal(await exported(api, tenant, query), "[]");
    assert.equal(await exported(api, tenant, { ...query, format: "ndjson" }), "");
    const header = "externalUserId,eventType,timestamp,idempotencyKey,properties\r\n";
    assert.equal(await exported(api, tenant, { ...query, format: "csv" }), header);
    assert.equal(await exported(api, tenant, { ...query, format: "csv", bom: "true" }), `\uFEFF${header}`);
    assert.equal(
      await exported(api, tenant, { ...query, format: "csv", flatten: "true" }),
      "externalUserId,eventType,timestamp,idempotencyKey\r\n",
    );
  });

  it("say the same as the report's own operation", async () => {
    const tenant = await aHistory([
      event(),
      event({ externalUserId: "bob", timestamp: "2026-03-09T10:00:00Z" }),
    ]);
    const { key } = tenant;
    const asked = { ...MARCH, asOf: "2026-11-01T00:00:00Z" };
    const ask = async (path: string, query: Record<string, string>) =>
      must(await api.get(`/api/v1/analytics/${path}?${new URLSearchParams(query).toString()}`, { key }), 200);
    const rowsOf = async (query: Record<string, string>) => JSON.parse(await exported(api, tenant, query));
    const { metrics } = await ask("overview", asked);
    for (const { metric, value, previous } of await rowsOf({ report: "overview", ...asked }))
      assert.deepEqual([value, previous], [metrics[metric].value, metrics[metric].previous], metric);
    const trend = { ...asked, metric: "events,activePlayers", interval: "week", weekStart: "sunday" };
    const { series } = await ask("trends", trend);
    const points = series.flatMap(({ metric, points: own }: Shown) =>
      own.map(({ date, start, value }: Shown) => ({ metric, date, start, value })),
    );
    assert.deepEqual(
      (await rowsOf({ report: "trends", ...trend })).map(({ metric, date, start, value }: Shown) => ({
        metric,
        date,
        start,
        value,
      })),
      points,
    );
    const { groups } = await ask("segments", { asOf: asked.asOf });
    assert.deepEqual(
      pluck(await rowsOf({ report: "segments", asOf: asked.asOf }), "segment", "players"),
      groups.flatMap(({ segments }: Shown) =>
        segments.map(({ key: name, players }: Shown) => [name, players]),
      ),
    );
    const churned = await rowsOf({ report: "players", segment: "lifecycle:churned" });
    assert.deepEqual(
      churned.map(({ externalUserId, events }: Shown) => [externalUserId, events]).toSorted(),
      [
        ["ann", 1],
        ["bob", 1],
      ],
    );
    assert.deepEqual(await rowsOf({ report: "players", segment: "lifecycle:new" }), []);
  });

  it("of players know the events before asOf, also those that are deleted with age", async () => {
    const times = ["2026-03-02T10:00:00.001Z", "2026-03-02T11:00:00.000Z", "2026-03-02T12:00:00.000Z"];
    const tenant = await aHistory(times.map((timestamp) => event({ timestamp })));
    await rollUpAll(api, tenant.projectId);
    const columns = "firstEventAt,lastEventAt,events";
    const query = { report: "players", format: "json", columns, asOf: "2026-03-02T12:00:00Z" };
    const expected = [{ firstEventAt: times[0], lastEventAt: times[1], events: 2 }];
    assert.deepEqual(JSON.parse(await exported(api, tenant, query)), expected);
    await api.app.transact(({ db }) =>
      sql`delete from tracked_events where project_id = ${tenant.projectId}::uuid`.execute(db),
    );
    assert.deepEqual(JSON.parse(await exported(api, tenant, query)), expected);
  });

  it("come back byte for byte from another project that they were sent to", async () => {
    const values = fc.array(fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(values, fc.infiniteStream(fc.nat(3)), async (all, minutes) => {
        const events = all.map((properties, i) =>
          event({
            externalUserId: `user-${i % 3}`,
            timestamp: `2026-03-02T10:0${minutes.next().value}:00.000Z`,
            properties,
            ...(i % 2 ? { idempotencyKey: `key ${i}` } : {}),
          }),
        );
        const [one, two] = [await aHistory(), await aHistory()];
        const batch = await api.post("/api/v1/events/batch", { events }, { key: one.key, isUnchecked: true });
        // Names such as __proto__ and NUL are refused one by one.
        if (batch.status !== 200) return;
        const query = { report: "events", format: "ndjson", ...MARCH };
        const first = await exported(api, one, query);
        const lines = first.split("\n").filter(Boolean);
        if (lines.length > 0)
          await trackAll(
            api,
            two,
            lines.map((line) => JSON.parse(line) as object),
          );
        assert.equal(await exported(api, two, query), first);
      }),
      { numRuns: 8 },
    );
  });

  it("never start a formula in a spreadsheet, unless raw is asked for, and leave numbers alone", () => {
    const columns = columnsOf(
      [
        { name: "text", type: "text" },
        { name: "number", type: "number" },
        { name: "json", type: "json" },
      ],
      ["text", "number", "json.a"],
    );
    const cellsOf = (text: string, raw: boolean): string[] => {
      const row = { text, number: -1, json: JSON.stringify({ a: text }) };
      return parseCsv(fileWriter(columns, { format: "csv", bom: false, raw }).rows([row], true))[0]!;
    };
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.constantFrom("=1", "+1", "-1", "@a", "\ta", "\ra", 'a"b')),
        (text) => {
          const shown = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
          assert.deepEqual(cellsOf(text, false), [shown, "-1", shown]);
          assert.deepEqual(cellsOf(text, true), [text, "-1", text]);
        },
      ),
    );
  });

  it("have a name, are compressed where that is taken, and are only asked about by HEAD", async () => {
    const tenant = await aHistory([event()]);
    const query = new URLSearchParams({ report: "events", format: "csv", ...MARCH });
    const url = `${api.url}/api/v1/analytics/export?${query.toString()}`;
    const ask = (method: string, encoding: string) =>
      fetch(url, { method, headers: { "X-API-Key": tenant.key, "Accept-Encoding": encoding } });
    for (const encoding of ["gzip", "identity"]) {
      const answer = await ask("GET", encoding);
      assert.equal(answer.headers.get("content-encoding"), encoding === "gzip" ? "gzip" : null);
      assert.equal(answer.headers.get("content-type"), "text/csv; charset=utf-8");
      assert.equal(
        answer.headers.get("content-disposition"),
        'attachment; filename="laurel-test-game-events-2026-03-01-2026-03-31.csv"',
      );
      assert.equal((await answer.text()).split("\r\n").length, 3);
    }
    const head = await ask("HEAD", "gzip");
    assert.deepEqual([head.status, await head.text()], [200, ""]);
  });

  it("refuse what a report or a format does not have, by name", async () => {
    const tenant = await aHistory();
    const refused = async (query: Record<string, string>, field: string) => {
      const answer = await get(query, tenant.key);
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, field, JSON.stringify(query));
    };
    await refused({ report: "nothing" }, "report");
    await refused({ report: "events", format: "xml" }, "format");
    await refused({ report: "events", columns: "nothing" }, "columns");
    await refused({ report: "events", columns: "timestamp,timestamp" }, "columns");
    await refused({ report: "events", flatten: "true" }, "flatten");
    await refused({ report: "events", format: "ndjson", bom: "true" }, "bom");
    await refused({ report: "events", metric: "events" }, "metric");
    await refused({ report: "overview", segment: "lifecycle:new" }, "segment");
    await refused({ report: "players", segment: "lifecycle:gone" }, "segment");
    await refused({ report: "trends", metric: "nothing" }, "metric");
    await refused({ report: "events", from: "2026-02-02", to: "2026-02-01" }, "to");
  });

  it("have at most 200 columns of properties, and say so instead of leaving some out", async () => {
    const wide = Object.fromEntries(Array.from({ length: 201 }, (_, i) => [`p${i}`, i]));
    const tenant = await aHistory([event({ properties: wide })]);
    const query = { report: "events", format: "csv", ...MARCH };
    const answer = await get({ ...query, flatten: "true" }, tenant.key);
    assertError(answer, 400);
    assert.equal(answer.body.error.details[0].field, "flatten");
    const chosen = await exported(api, tenant, { ...query, columns: "properties.p200" });
    assert.equal(chosen, "properties.p200\r\n200\r\n");
  });

  it("go no further back than the plan shows", async () => {
    const tenant = await aTenant(api);
    assertError(
      await get({ report: "events", from: "2020-01-01", to: "2020-02-01" }, tenant.key),
      402,
      "PLAN_LIMIT_EXCEEDED",
    );
  });

  it("need the role and the scopes of whoever may read the same elsewhere", async () => {
    const tenant = await aHistory();
    const viewer = await aMember(api, tenant.tenantId, "VIEWER");
    const path = "/api/v1/analytics/export?report=overview";
    assertError(await api.get(path, { token: viewer.token }), 403, "INSUFFICIENT_ROLE");
    const key = await aKey(api, { ...tenant, scopes: ["analytics:read"] });
    assert.equal((await get({ report: "overview" }, key)).status, 200);
    for (const report of ["events", "players"])
      assertError(await get({ report }, key), 403, "INSUFFICIENT_SCOPE");
    const both = await aKey(api, { ...tenant, scopes: ["analytics:read", "events:read"] });
    assert.equal((await get({ report: "events" }, both)).status, 200);
  });
});
