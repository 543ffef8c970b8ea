import assert from "node:assert/strict";
import { gunzipSync } from "node:zlib";
import { prune, PRUNES } from "../../src/domain/registries/pruning.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { aStoredExport, download, exported, trackAll } from "../support/data/data.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { jobResult } from "../support/app/processed.ts";
import { pluck } from "../support/pluck.ts";

const MARCH = { from: "2026-03-01", to: "2026-03-31" };
const PATH = "/api/v1/analytics/exports";

describe("exports of analytics as jobs", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { analyticsHistoryDays: null });
  });

  const track = (events: readonly object[], to = tenant) =>
    trackAll(
      api,
      to,
      events.map((more) => ({
        externalUserId: "ann",
        eventType: "quiz",
        timestamp: "2026-03-02T10:00:00.000Z",
        ...more,
      })),
    );
  const many = (count: number) =>
    Array.from({ length: count }, (_, i) => ({
      externalUserId: `user-${i % 50}`,
      timestamp: new Date(Date.UTC(2026, 2, 1) + ((i * 7_919_000) % (30 * 86_400_000))).toISOString(),
      properties: { i, in: { it: "é".repeat(i % 40) } },
    }));
  const textOf = async (id: string): Promise<string> =>
    gunzipSync((await download(api, tenant, id)).bytes).toString();

  it("make the very file that is streamed", async () => {
    await track(many(1_500));
    for (const more of [
      { report: "events", format: "ndjson" },
      { report: "events", format: "json" },
      { report: "events", format: "csv", flatten: true },
      { report: "events", format: "csv", bom: true, columns: ["properties.in.it", "eventId"] },
      { report: "players", format: "csv", asOf: "2026-04-01T00:00:00Z" },
      { report: "overview", format: "json", asOf: "2026-04-01T00:00:00Z" },
      { report: "trends", format: "csv", metric: ["events", "activePlayers"], asOf: "2026-04-01T00:00:00Z" },
      { report: "segments", format: "ndjson", asOf: "2026-04-01T00:00:00Z" },
    ]) {
      const range = ["players", "segments"].includes(more.report) ? {} : MARCH;
      const { id, rows, fileName } = await aStoredExport(api, tenant, { ...more, ...range });
      const query = Object.fromEntries(
        Object.entries({ ...more, ...range }).map(([name, value]) => [name, String(value)]),
      );
      const streamed = await exported(api, tenant, query);
      assert.equal(await textOf(id), streamed);
      if (more.format === "ndjson") assert.equal(rows, streamed.split("\n").length - 1);
      assert.match(fileName, new RegExp(`^laurel-test-game-${more.report}-.*\\.${more.format}\\.gz$`));
      must(await api.delete(`${PATH}/${id}`, { key: tenant.key }), 200);
    }
  });

  it("do not have what comes after they were asked for, also where it happened before", async () => {
    await track(many(20));
    const query = { report: "events", format: "ndjson", ...MARCH };
    const before = await exported(api, tenant, query);
    const { key } = tenant;
    const created = must(await api.post(PATH, query, { key }), 201);
    await track([{ externalUserId: "late", timestamp: "2026-03-01T00:00:00.000Z" }]);
    await eventually(
      async () => must(await api.get(`${PATH}/${created.id}`, { key }), 200).status === "SUCCEEDED",
    );
    assert.equal(await textOf(created.id), before);
    assert.notEqual(await exported(api, tenant, query), before);
  });

  it("are downloaded in parts that make the whole, and anew where the file is another", async () => {
    await track(many(300));
    const { id, bytes } = await aStoredExport(api, tenant, { report: "events", format: "csv", ...MARCH });
    const whole = await download(api, tenant, id);
    assert.deepEqual([whole.status, whole.bytes.length], [200, bytes]);
    assert.equal(whole.headers.get("accept-ranges"), "bytes");
    assert.equal(whole.headers.get("content-length"), String(bytes));
    const cut = Math.floor(bytes / 3);
    const part = async (range: string, headers: Record<string, string> = {}) =>
      download(api, tenant, id, { Range: range, ...headers });
    const first = await part(`bytes=0-${cut - 1}`);
    assert.deepEqual(
      [first.status, first.headers.get("content-range")],
      [206, `bytes 0-${cut - 1}/${bytes}`],
    );
    const etag = whole.headers.get("etag")!;
    const rest = await part(`bytes=${cut}-`, { "If-Range": etag });
    assert.equal(rest.status, 206);
    assert.deepEqual(Buffer.concat([first.bytes, rest.bytes]), whole.bytes);
    assert.deepEqual((await part("bytes=-10")).bytes, whole.bytes.subarray(-10));
    assert.deepEqual((await part(`bytes=5-${bytes * 2}`)).bytes, whole.bytes.subarray(5));
    for (const ignored of ["bytes=3-1", "bytes=0-1,4-5", "lines=0-1", "bytes=-"])
      assert.deepEqual([(await part(ignored)).status], [200], ignored);
    assert.equal((await part("bytes=0-1", { "If-Range": '"another"' })).status, 200);
    const none = await part(`bytes=${bytes}-`);
    assert.deepEqual([none.status, none.headers.get("content-range")], [416, `bytes */${bytes}`]);
    assert.equal(JSON.parse(none.bytes.toString()).error.reason, "RANGE_NOT_SATISFIABLE");
  });

  it("have no file before it is complete, and end when they are deleted", async () => {
    const { key } = tenant;
    const { id } = must(await api.post(PATH, { report: "events", ...MARCH }, { key }), 201);
    await api.sql`update project_jobs set due_at = '2126-01-01' where id = ${id}::uuid and status = 'QUEUED'`;
    const { status } = must(await api.get(`${PATH}/${id}`, { key }), 200);
    if (status !== "SUCCEEDED")
      assertError(await api.get(`${PATH}/${id}/download`, { key }), 409, "INVALID_STATE");
    must(await api.delete(`${PATH}/${id}`, { key }), 200);
    assertError(await api.get(`${PATH}/${id}`, { key }), 404);
  });

  it("are not there, nor are their jobs, for a key that may not export their report", async () => {
    const ofPlayers = await aStoredExport(api, tenant, { report: "players", format: "csv" });
    const ofOverview = await aStoredExport(api, tenant, { report: "overview", format: "csv", ...MARCH });
    const key = await aKey(api, { ...tenant, scopes: ["analytics:read"] });
    const get = (path: string) => api.get(`/api/v1${path}`, { key });
    for (const path of [`/analytics/exports/${ofPlayers.id}`, `/jobs/${ofPlayers.id}`])
      assertError(await get(path), 404);
    assertError(await get(`/jobs/${ofPlayers.id}/result`), 404);
    assertError(await api.post(`/api/v1/jobs/${ofPlayers.id}/cancel`, {}, { key }), 404);
    const { data } = must(await get("/jobs"), 200);
    assert.deepEqual(pluck(data, "id"), [ofOverview.id]);
  });

  it("are ten at most in a project, and gone a week after they were complete", async () => {
    const { key, projectId } = tenant;
    for (let n = 0; n < 10; n++) must(await api.post(PATH, { report: "segments" }, { key }), 201);
    assertError(await api.post(PATH, { report: "segments" }, { key }), 409, "EXPORT_LIMIT");
    const pieces = async () => {
      const rows = await api.sql<{ n: number }>`
        select count(*) as n from analytics_export_pieces where project_id = ${projectId}::uuid`;
      return rows[0]!.n;
    };
    await eventually(async () => (await pieces()) === 10, { timeoutMs: 60_000 });
    const expired = PRUNES.find(({ table }) => table === "analytics_exports")!;
    const pruneAt = (days: number) =>
      api.app.transact((work) =>
        prune({ ...work, now: new Date(work.now.getTime() + days * 86_400_000) }, expired, 1_000),
      );
    await pruneAt(6);
    assert.equal(await pieces(), 10);
    assert.ok((await pruneAt(8)) >= 10);
    assert.equal(await pieces(), 0);
    must(await api.post(PATH, { report: "segments" }, { key }), 201);
  });

  it("are deleted when a player of the project is erased", async () => {
    await track([{ properties: { secret: "of ann" } }]);
    const { key } = tenant;
    const { id } = await aStoredExport(api, tenant, { report: "events", ...MARCH });
    await eventually(async () => (await api.get("/api/v1/players/ext:ann", { key })).status === 200);
    const job = must(await api.post("/api/v1/players/ext:ann/erase", { reason: "asked" }, { key }), 201);
    await jobResult(api, tenant, job.id);
    assertError(await api.get(`${PATH}/${id}`, { key }), 404);
    const left = await api.sql`select from analytics_export_pieces where export_id = ${id}::uuid`;
    assert.equal(left.length, 0);
  });
});
