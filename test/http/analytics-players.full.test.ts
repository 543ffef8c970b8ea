import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { anAsker, rollUpAll, type Past } from "../support/analytics/histories.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { jobResult } from "../support/app/processed.ts";
import { pluck } from "../support/pluck.ts";

const AS_OF = "2026-06-01T00:00:00Z";
const RANGE = { from: "2026-05-01", to: "2026-05-10", asOf: AS_OF, timezone: "UTC" };

describe("the players behind a number", () => {
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));
  beforeEach(async () => {
    await asker.store([
      ["ann", "seen", "2026-05-01T10:00:00Z", { map: "ice" }],
      ["ann", "won", "2026-05-02T10:00:00Z"],
      ["bob", "seen", "2026-05-01T11:00:00Z", { map: "fire" }],
      ["cid", "seen", "2026-05-02T10:00:00Z", { map: "ice", score: 5 }],
      ["cid", "won", "2026-05-02T11:00:00Z"],
      ["cid", "lost", "2026-05-02T12:00:00Z"],
    ]);
  });

  const names = async (query: Record<string, string>): Promise<string[]> => {
    const { data, pagination } = await asker.ask("players", { ...RANGE, ...query });
    assert.equal(pagination.total, data.length);
    return data.map((one: { externalUserId: string }) => one.externalUserId).toSorted();
  };

  it("are listed for cells of retention: who returned, and who did not", async () => {
    const cell = { of: "retention", cohort: "2026-05-01", offset: "1", offsets: "0,1" };
    assert.deepEqual(await names(cell), ["ann"]);
    assert.deepEqual(await names({ ...cell, returned: "false" }), ["bob"]);
    assert.deepEqual(await names({ of: "retention", cohort: "2026-05-01" }), ["ann", "bob"]);
    assert.deepEqual(await names({ ...cell, startEvent: "seen", returnEvent: "won" }), ["ann"]);
  });

  it("are listed for rows and cells of cohorts, also of a property", async () => {
    const row = { of: "cohorts", unit: "day", periods: "3", cohort: "2026-05-01" };
    assert.deepEqual(await names(row), ["ann", "bob"]);
    assert.deepEqual(await names({ ...row, k: "1" }), ["ann"]);
    assert.deepEqual(await names({ ...row, metric: "xp" }), ["ann", "bob"]);
    const ofMaps = { of: "cohorts", unit: "day", segmentBy: "property", property: "map" };
    assert.deepEqual(await names({ ...ofMaps, segment: "ice" }), ["ann", "cid"]);
    assert.deepEqual(await names({ ...ofMaps, segment: "(other)", valuesLimit: "1" }), ["bob"]);
  });

  it("are listed for steps of funnels: who completed them, and who dropped out", async () => {
    const funnel = { of: "funnels", steps: "seen,won,lost" };
    assert.deepEqual(await names({ ...funnel, step: "1" }), ["ann", "bob", "cid"]);
    assert.deepEqual(await names({ ...funnel, step: "2" }), ["ann", "cid"]);
    assert.deepEqual(await names({ ...funnel, step: "1", state: "dropped" }), ["bob"]);
    assert.deepEqual(await names({ ...funnel, step: "3", state: "dropped" }), []);
    assert.deepEqual(await names({ ...funnel, step: "2", breakdown: "map", value: "ice" }), ["ann", "cid"]);
  });

  it("are listed for bands of segments", async () => {
    const { groups } = await asker.ask("segments", { asOf: AS_OF, timezone: "UTC", group: "lifecycle" });
    const dormant = groups[0].segments.find(({ key }: { key: string }) => key === "dormant");
    const query = { of: "segments", segment: "lifecycle:dormant", asOf: AS_OF, timezone: "UTC" };
    assert.equal((await asker.ask("players", query)).pagination.total, dormant.players);
    assertError(await asker.tryAsk("players", { ...query, segment: "lifecycle:none" }), 404);
    assertError(await asker.tryAsk("players", { ...query, segment: "none" }), 400);
  });

  it("are listed for the overview, from events and from rollups", async () => {
    await asker.store([
      ["dan", "seen", "2026-04-01T10:00:00Z"],
      ["eve", "seen", "2026-04-01T10:00:00Z"],
      ["eve", "won", "2026-05-03T10:00:00Z"],
      ["fay", "seen", "2026-05-11T10:00:00Z"],
    ]);
    const expected = {
      activePlayers: ["ann", "bob", "cid", "eve"],
      newPlayers: ["ann", "bob", "cid"],
      returningPlayers: ["eve"],
      totalPlayers: ["ann", "bob", "cid", "dan", "eve"],
    };
    const holds = async (): Promise<void> => {
      const { metrics } = await asker.ask("overview", RANGE);
      for (const [metric, players] of Object.entries(expected)) {
        assert.deepEqual(await names({ of: "overview", metric }), players, metric);
        assert.equal(metrics[metric].value, players.length, metric);
      }
      const winners = { of: "overview", metric: "activePlayers", activeEvents: "won" };
      assert.deepEqual(await names(winners), ["ann", "cid", "eve"]);
    };
    await holds();
    await rollUpAll(api, asker.tenant.projectId);
    await holds();
    assertError(await asker.tryAsk("players", { ...RANGE, of: "overview", metric: "events" }), 400);
    assertError(await asker.tryAsk("players", { ...RANGE, of: "overview" }), 400);
  });

  it("have no time of a last event once their events are deleted with age", async () => {
    const { projectId } = asker.tenant;
    await rollUpAll(api, projectId);
    await api.sql`delete from tracked_events where project_id = ${projectId} and external_user_id = ${"ann"}`;
    const query = { of: "segments", segment: "lifecycle:dormant", asOf: AS_OF, timezone: "UTC" };
    const { data } = await asker.ask("players", query);
    const times = data.map((one: Record<string, string>) => [one["externalUserId"], one["lastActiveAt"]]);
    assert.deepEqual(times, [
      ["ann", null],
      ["cid", "2026-05-02T12:00:00.000Z"],
    ]);
  });

  it("are listed by a body for funnels with filters", async () => {
    const body = {
      ...RANGE,
      steps: [{ eventType: "seen", where: { "properties.score": { gte: 1 } } }, { eventType: "won" }],
      step: 2,
    };
    const { key } = asker.tenant;
    const { data } = must(await api.post("/api/v1/analytics/players", { funnel: body }, { key }), 200);
    assert.deepEqual(pluck(data, "externalUserId"), ["cid"]);
  });

  it("are named by each answer: a path and the parameters", async () => {
    const questions = {
      overview: { ...RANGE },
      retention: { ...RANGE },
      cohorts: { ...RANGE },
      funnels: { ...RANGE, steps: "seen,won" },
      segments: { asOf: AS_OF },
    };
    for (const [of, query] of Object.entries<Record<string, string>>(questions)) {
      const { players } = await asker.ask(of, query);
      assert.equal(players.path, "/analytics/players");
      assert.equal(players.of, of);
    }
  });

  it("come in pages that go on by a cursor, each once, also when others come", async () => {
    const query = { ...RANGE, of: "funnels", steps: "seen,won", step: "1", limit: "1" };
    const found: string[] = [];
    let cursor: string | null = null;
    do {
      const page: { data: { externalUserId: string }[]; pagination: { nextCursor: string | null } } =
        await asker.ask("players", cursor === null ? query : { ...query, cursor });
      found.push(...page.data.map(({ externalUserId }) => externalUserId));
      cursor = page.pagination.nextCursor;
      // Who comes after asOf is no part of the list.
      await asker.store([[`later-${found.length}`, "seen", "2026-06-02T10:00:00Z"]]);
    } while (cursor !== null);
    assert.deepEqual(found.toSorted(), ["ann", "bob", "cid"]);
  });

  it("are exported like players, in each format and as a stored file", async () => {
    const { key } = asker.tenant;
    const query = { ...RANGE, report: "players", of: "retention", cohort: "2026-05-01", offsets: "0,1" };
    const get = (format: string) =>
      api.get(`/api/v1/analytics/export?${new URLSearchParams({ ...query, format }).toString()}`, { key });
    const rows = must(await get("json"), 200);
    assert.deepEqual(rows.map((row: { externalUserId: string }) => row.externalUserId).toSorted(), [
      "ann",
      "bob",
    ]);
    for (const format of ["csv", "ndjson"]) assert.equal((await get(format)).status, 200);
    const made = must(await api.post("/api/v1/analytics/exports", query, { key }), 201);
    const done = await eventually(
      async () => {
        const one = must(await api.get(`/api/v1/analytics/exports/${made.id}`, { key }), 200);
        return one.status === "SUCCEEDED" ? (one as { rows: number }) : undefined;
      },
      { timeoutMs: 60_000 },
    );
    assert.equal(done.rows, 2);
  });

  it("are refused where the question has no such number", async () => {
    const retention = { ...RANGE, of: "retention", cohort: "2026-05-01", offsets: "0,1" };
    for (const [query, field] of [
      [{ ...RANGE, of: "levels" }, "of"],
      [{ ...retention, cohort: "2026-04-30" }, "cohort"],
      [{ ...retention, offset: "7" }, "offset"],
      [{ ...retention, brackets: "0,1" }, "brackets"],
      [{ ...retention, stepp: "7" }, "stepp"],
      [{ ...RANGE, of: "funnels", steps: "seen,won", step: "3" }, "step"],
      [{ ...RANGE, of: "funnels", steps: "seen,won" }, "step"],
      [{ ...RANGE, of: "funnels", steps: "seen,won", step: "1", value: "x" }, "value"],
      [{ ...RANGE, of: "cohorts", cohort: "2026-04-27", k: "1", metric: "events" }, "k"],
      [{ ...RANGE, of: "cohorts", cohort: "2026-04-27", k: "13" }, "k"],
      [{ ...RANGE, of: "cohorts", segment: "ice" }, "segment"],
      [{ ...RANGE, of: "cohorts", segmentBy: "property", property: "map", cohort: "2026-04-27" }, "segment"],
    ] as const) {
      const answer = await asker.tryAsk("players", query);
      assertError(answer, 400);
      assert.match(JSON.stringify(answer.body), new RegExp(`"${field}"`), JSON.stringify(query));
    }
  });

  const members = async (segment: string): Promise<{ externalUserId: string }[]> => {
    const { key } = asker.tenant;
    return must(await api.get(`/api/v1/segments/${segment}/members?limit=100`, { key }), 200).data;
  };

  it("become a STATIC segment by one call", async () => {
    const { key } = asker.tenant;
    const list = { ...RANGE, of: "funnels", steps: "seen,won", step: 2 };
    const body = { key: "winners", name: "Winners", list };
    const made = must(await api.post("/api/v1/analytics/players/segment", body, { key }), 201);
    assert.deepEqual([made.segmentKey, made.players, made.jobId], ["winners", 2, null]);
    const those = await members("winners");
    assert.deepEqual(those.map(({ externalUserId }) => externalUserId).toSorted(), ["ann", "cid"]);
    const segment = must(await api.get("/api/v1/segments/winners", { key }), 200);
    assert.deepEqual([segment.kind, segment.memberCount], ["STATIC", 2]);
    assertError(await api.post("/api/v1/analytics/players/segment", body, { key }), 409, "KEY_TAKEN");
    const neither = { key: "none", name: "None" };
    assertError(await api.post("/api/v1/analytics/players/segment", neither, { key }), 400);
  });

  it("become a segment by a job where they are many", async () => {
    const { key, projectId } = asker.tenant;
    const many = Array.from({ length: 1_203 }, (_, i): Past => [
      `many-${i}`,
      "joined",
      "2026-05-03T10:00:00Z",
    ]);
    await asker.store(many);
    const funnel = { ...RANGE, steps: [{ eventType: "joined" }, { eventType: "left" }], step: 1 };
    const body = { key: "joined", name: "Joined", description: "All", funnel };
    const made = must(await api.post("/api/v1/analytics/players/segment", body, { key }), 201);
    assert.equal(made.players, 1_203);
    const result = await jobResult(api, { key }, made.jobId);
    assert.deepEqual(result, { segmentKey: "joined", added: 1_203, isArchived: false });
    assert.equal(must(await api.get("/api/v1/segments/joined", { key }), 200).memberCount, 1_203);
    const rows = await api.sql`select 1 from analytics_listed where project_id = ${projectId}::uuid`;
    assert.equal(rows.length, 0);
  });
});
