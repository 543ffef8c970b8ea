import assert from "node:assert/strict";
import { REPORTS_MAX } from "../../src/domain/analytics/reports/saved-reports.ts";
import { FUNNEL_BODY, MARCH, savedOfEachKind } from "../support/analytics/reports.ts";
import { anAsker } from "../support/analytics/histories.ts";
import { aKey, type Answer, aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { rulesOf } from "../support/rules/rules-api.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const PATH = "/api/v1/analytics/reports";
const WEEKLY = {
  key: "weekly",
  name: "Events of a week",
  report: "trends",
  parameters: { metric: "events", interval: "day" },
  range: { last: 1, unit: "WEEK" },
};
const MONDAYS = { every: "WEEK", weekday: 1, hour: 6, timezone: "Europe/Berlin" };

type Report = Answer["body"];

describe("saved reports in a project's configuration", () => {
  let tenant: Tenant;
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));
  beforeEach(async () => {
    ({ tenant } = asker);
  });

  const save = async (body: object, key = tenant.key): Promise<Report> =>
    must(await api.post(PATH, { name: "A report", ...body }, { key }), 201);
  const reportOf = async (id: string, key = tenant.key): Promise<Report> =>
    must(await api.get(`${PATH}/${id}`, { key }), 200);
  const list = async (key = tenant.key): Promise<Report[]> =>
    must(await api.get(`${PATH}?sort=name&order=asc&limit=100`, { key }), 200).data;
  const exported = async (key = tenant.key): Promise<Answer["body"]> =>
    must(await api.get("/api/v1/config/export", { key }), 200);
  const post = (path: string, document: object, more: object = {}, key = tenant.key): Promise<Answer> =>
    api.post(`/api/v1/config/${path}`, { document: { format: "laurel/1", ...document }, ...more }, { key });
  const importing = (document: object, more: object = {}, key = tenant.key): Promise<Answer> =>
    post("import", document, more, key);
  const imported = async (document: object, more: object = {}, key = tenant.key): Promise<object[]> =>
    must(await importing(document, more, key), 200).changes;

  it("move whole into another project, where each is asked as its own, by its rule's key", async () => {
    const { id: ruleId, key: ruleKey } = await rulesOf(api, tenant).publish({
      rollout: { percent: 100, holdoutPercent: 50 },
    });
    for (const { report, parameters } of savedOfEachKind(ruleId)) await save({ report, parameters });
    await save({ ...WEEKLY, schedule: MONDAYS, description: "Of all players" });
    await save({ name: "Both on ice", report: "funnels", parameters: FUNNEL_BODY });
    const document = await exported();
    assert.equal(document.analyticsReports.length, savedOfEachKind("").length + 2);
    assert.equal(JSON.stringify(document).includes(ruleId), false);
    assert.deepEqual(await imported(document, { prune: true }), []);

    const other = await anAsker(api);
    const created = await imported(document, {}, other.tenant.key);
    const expected = document.analyticsReports.map(({ key }: Report) => [key, "CREATE"]);
    const ofReports = (created as Report[]).filter(({ section }) => section === "analyticsReports");
    assert.deepEqual(pluck(ofReports, "key", "action"), expected);
    assert.deepEqual(await exported(other.tenant.key), document);
    assert.deepEqual(await imported(document, { prune: true }, other.tenant.key), []);

    await other.store(MARCH);
    for (const { id, report, parameters } of await list(other.tenant.key)) {
      const answer = await api.get(`${PATH}/${id}/run`, { key: other.tenant.key });
      must(answer, 200);
      if (report !== "trends" || parameters.metric !== "events" || parameters.breakdown) continue;
      const { metric, interval } = parameters;
      const { from, to } = answer.body.range;
      const asked = await other.ask("trends", { metric, interval, from, to });
      assert.deepEqual([answer.body.range, answer.body.series], [asked.range, asked.series]);
    }
    const [experiment] = (await list(other.tenant.key)).filter(({ report }) => report === "experiments");
    assert.equal(experiment!.parameters.ruleId, ruleKey);
  });

  it("are compared field by field, and prune deletes those that a document does not name", async () => {
    await save({ ...WEEKLY, schedule: MONDAYS });
    await save({ key: "other", report: "overview" });
    const analyticsReports = [
      { ...WEEKLY, name: "Events", parameters: { metric: "activePlayers" }, schedule: MONDAYS },
      { key: "new", name: "New", report: "segments", parameters: { group: "lifecycle" } },
    ];
    const section = "analyticsReports";
    const changes = [
      { section, key: "weekly", action: "UPDATE", fields: ["name", "parameters"] },
      { section, key: "new", action: "CREATE", fields: [] },
    ];
    assert.deepEqual(must(await post("diff", { analyticsReports }), 200).changes, changes);
    assert.deepEqual(await imported({ analyticsReports }, { dryRun: true }), changes);
    assert.deepEqual(pluck(await list(), "key"), ["other", "weekly"]);
    assert.deepEqual(await imported({ analyticsReports }), changes);
    assert.deepEqual(pluck((await exported()).analyticsReports, "key", "name"), [
      ["new", "New"],
      ["other", "A report"],
      ["weekly", "Events"],
    ]);
    assert.deepEqual(await imported({ badges: [] }, { prune: true }), []);
    const pruned = [{ section, key: "other", action: "DELETE", fields: [] }];
    assert.deepEqual(await imported({ analyticsReports }, { prune: true }), pruned);
    assert.deepEqual(pluck(await list(), "key"), ["weekly", "new"]);
  });

  it("keep who is told and the next run, and the zone that a document leaves out", async () => {
    const { userId } = await aMember(api, tenant.tenantId, "VIEWER");
    const schedule = { ...MONDAYS, mailTo: [userId] };
    const { id, nextRunAt } = await save({ ...WEEKLY, schedule });
    const [document] = (await exported()).analyticsReports;
    assert.deepEqual(document.schedule, MONDAYS);
    await imported({ analyticsReports: [{ ...document, name: "Another" }] });
    const renamed = await reportOf(id);
    assert.deepEqual([renamed.name, renamed.schedule, renamed.nextRunAt], ["Another", schedule, nextRunAt]);
    const { timezone: _, ...noZone } = MONDAYS;
    const later = [
      { ...renamed.schedule, hour: 7 },
      { ...noZone, hour: 7 },
    ] as const;
    await imported({ analyticsReports: [{ ...document, name: "Another", schedule: later[1] }] });
    assert.deepEqual((await reportOf(id)).schedule, later[0]);
    assert.notEqual((await reportOf(id)).nextRunAt, nextRunAt);
    await imported({ analyticsReports: [{ ...document, schedule: null }] });
    assert.deepEqual([(await reportOf(id)).schedule, (await reportOf(id)).nextRunAt], [null, null]);
  });

  it("have a key like their name, unless one is given; a key is there once", async () => {
    assert.equal((await save({ name: "Wöchentlich: all", report: "overview" })).key, "wochentlich-all");
    assert.equal((await save({ name: "Wöchentlich: all", report: "overview" })).key, "wochentlich-all-2");
    assert.equal((await save({ name: "日本", report: "overview" })).key, "report");
    assert.equal((await save(WEEKLY)).key, "weekly");
    assertError(await api.post(PATH, WEEKLY, { key: tenant.key }), 409, "KEY_TAKEN");
    const [{ id }] = (await list()) as [Report];
    assertError(await api.patch(`${PATH}/${id}`, { key: "another" }, { key: tenant.key }), 400);
    const bad = await api.post(PATH, { ...WEEKLY, key: "No key" }, { key: tenant.key });
    assert.equal(bad.body.error.details[0].field, "key");
    const other = await aTenant(api);
    assert.equal((await save(WEEKLY, other.key)).key, "weekly");
  });

  it("name rules of the same document", async () => {
    const rule = {
      key: "double",
      name: "Double",
      rollout: { percent: 50 },
      triggers: [{ kind: "EVENT", eventTypes: ["go"] }],
      actions: [{ type: "grant_xp", amount: 1 }],
    };
    const parameters = { ruleId: "double", metric: "events" };
    const analyticsReports = [{ key: "did-it", name: "Did it", report: "experiments", parameters }];
    await imported({ rules: [{ status: "ACTIVE", rule }], analyticsReports });
    const [{ id }] = (await list()) as [Report];
    assert.equal(must(await api.get(`${PATH}/${id}/run`, { key: tenant.key }), 200).ruleKey, "double");
  });

  it("are as many as a project may have, which a document may replace all at once", async () => {
    const some = (from: number, count: number) =>
      Array.from({ length: count }, (_, i) => ({ ...WEEKLY, key: `r${from + i}` }));
    await imported({ analyticsReports: some(0, REPORTS_MAX) });
    assertError(await importing({ analyticsReports: some(REPORTS_MAX, 1) }), 409, "REPORT_LIMIT");
    assertError(await importing({ analyticsReports: some(0, REPORTS_MAX + 1) }), 400);
    const changes = await imported({ analyticsReports: some(50, REPORTS_MAX) }, { prune: true });
    assert.equal(changes.length, 100);
    assert.equal((await list()).length, REPORTS_MAX);
  });

  it("become those of the project in its sandbox, without its people", async () => {
    const test = await aKey(api, { ...tenant, environment: "test" });
    const { userId } = await aMember(api, tenant.tenantId, "VIEWER");
    const { id: ruleId } = await rulesOf(api, tenant).publish({ rollout: { percent: 50 } });
    await save({ ...WEEKLY, schedule: { ...MONDAYS, mailTo: [userId] } });
    await save({ key: "did-it", report: "experiments", parameters: { ruleId, metric: "events" } });
    const own = await save({ key: "own", name: "Own", report: "overview" }, test);
    const before = await save({ ...WEEKLY, name: "Before" }, test);
    const sync = async () =>
      must(
        await api.post(`/api/v1/projects/${tenant.projectId}/sandbox/sync`, {}, { token: tenant.token }),
        200,
      );
    assert.equal((await sync()).analyticsReports, 2);
    const [there, here] = [await exported(test), await exported()];
    assert.deepEqual(
      there.analyticsReports.filter(({ key }: Report) => key !== "own"),
      here.analyticsReports,
    );
    const copy = await reportOf(before.id, test);
    assert.deepEqual([copy.name, copy.schedule.mailTo], [WEEKLY.name, []]);
    assert.deepEqual(await reportOf(own.id, test), own);
    const again = await sync();
    assert.deepEqual([again.analyticsReports, again.skipped], [0, []]);
    const runnable = (await list(test)).filter(({ report }) => report === "experiments");
    must(await api.get(`${PATH}/${runnable[0]!.id}/run`, { key: test }), 200);
  });

  it("are imported by those who may save reports", async () => {
    const reader = await aKey(api, { ...tenant, scopes: ["config:read"] });
    assertError(await importing({ analyticsReports: [WEEKLY] }, {}, reader), 403, "INSUFFICIENT_SCOPE");
    const manager = await aKey(api, { ...tenant, scopes: ["config:manage"] });
    await imported({ analyticsReports: [WEEKLY] }, {}, manager);
  });
});
