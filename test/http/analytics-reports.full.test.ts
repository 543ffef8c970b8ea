import assert from "node:assert/strict";
import { FUNNEL_BODY } from "../support/analytics/reports.ts";
import { anAsker } from "../support/analytics/histories.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { REPORTS_MAX } from "../../src/domain/analytics/reports/saved-reports.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const PATH = "/api/v1/analytics/reports";
const TRENDS = { name: "Events", report: "trends", parameters: { metric: "events", period: "7d" } };

describe("saved reports of analytics", () => {
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));

  const save = async (body: object): Promise<Answer["body"]> =>
    must(await api.post(PATH, { name: "A report", ...body }, { key: asker.tenant.key }), 201);
  const run = (id: string, query = "", headers = {}): Promise<Answer> =>
    api.get(`${PATH}/${id}/run${query}`, { key: asker.tenant.key, headers });
  const refusedFields = async (body: object): Promise<string[]> => {
    const answer = await api.post(PATH, { name: "A report", ...body }, { key: asker.tenant.key });
    assertError(answer, 400);
    return answer.body.error.details.map(({ field }: { field: string }) => field);
  };

  it("count a relative range back from the day that is going on where the zone is", async () => {
    const rangeOf = async (range: object, parameters: object): Promise<string[]> => {
      const { id } = await save({
        report: "overview",
        range,
        parameters: { compare: "none", ...parameters },
      });
      const answer = must(await run(id), 200);
      return [answer.range.from, answer.range.to];
    };
    // A Wednesday, in Auckland a Thursday.
    const asOf = "2026-05-20T13:00:00Z";
    const cases: [range: object, parameters: object, from: string, to: string][] = [
      [{ last: 7, unit: "DAY" }, {}, "2026-05-13", "2026-05-19"],
      [{ last: 7, unit: "DAY", current: true }, {}, "2026-05-14", "2026-05-20"],
      [{ last: 7, unit: "DAY" }, { timezone: "Pacific/Auckland" }, "2026-05-14", "2026-05-20"],
      [{ last: 1, unit: "WEEK" }, {}, "2026-05-11", "2026-05-17"],
      [{ last: 1, unit: "WEEK" }, { weekStart: "sunday" }, "2026-05-10", "2026-05-16"],
      [{ last: 2, unit: "WEEK", current: true }, {}, "2026-05-11", "2026-05-20"],
      [{ last: 1, unit: "MONTH" }, {}, "2026-04-01", "2026-04-30"],
      [{ last: 3, unit: "MONTH" }, {}, "2026-02-01", "2026-04-30"],
      [{ last: 1, unit: "MONTH", current: true }, {}, "2026-05-01", "2026-05-20"],
      // Days are over at their very end.
      [{ last: 1, unit: "WEEK" }, { asOf: "2026-05-18T00:00:00Z" }, "2026-05-11", "2026-05-17"],
      [{ last: 1, unit: "WEEK" }, { asOf: "2026-05-17T23:59:59.999Z" }, "2026-05-04", "2026-05-10"],
    ];
    for (const [range, parameters, from, to] of cases)
      assert.deepEqual(await rangeOf(range, { asOf, ...parameters }), [from, to], JSON.stringify(range));
    must(
      await api.patch(
        `/api/v1/projects/${asker.tenant.projectId}`,
        { timezone: "Pacific/Auckland" },
        { token: asker.tenant.token },
      ),
      200,
    );
    assert.deepEqual(await rangeOf({ last: 1, unit: "DAY" }, { asOf }), ["2026-05-20", "2026-05-20"]);
  });

  it("are refused with the field that keeps them from running", async () => {
    const refused: [body: object, field: string][] = [
      [{ report: "trends" }, "parameters.metric"],
      [{ report: "trends", parameters: { metric: "nonsense" } }, "parameters.metric"],
      [{ report: "trends", parameters: { metric: "events", color: "red" } }, "parameters.color"],
      [{ report: "trends", parameters: { metric: "events", projectId: "x" } }, "parameters.projectId"],
      [
        {
          report: "trends",
          parameters: { metric: "events", interval: "hour", period: "90d", breakdown: "x" },
        },
        "parameters.breakdown",
      ],
      [{ report: "trends", parameters: { metric: "mau", interval: "hour" } }, "parameters.interval"],
      [{ report: "overview", parameters: { from: "2026-03-08", to: "2026-03-02" } }, "parameters.to"],
      [{ report: "overview", parameters: { timezone: "Mars/Olympus" } }, "parameters.timezone"],
      [{ report: "overview", parameters: { period: { last: 7 } } }, "parameters.period"],
      [{ report: "trends", parameters: { metric: [{ toString: 1 }] } }, "parameters.metric"],
      [
        { report: "overview", parameters: { period: "7d" }, range: { last: 1, unit: "DAY" } },
        "parameters.period",
      ],
      [{ report: "overview", range: { last: 1, unit: "YEAR" } }, "range.unit"],
      [{ report: "overview", range: { last: 0, unit: "DAY" } }, "range.last"],
      [{ report: "segments", range: { last: 1, unit: "DAY" } }, "range"],
      [{ report: "segments", parameters: { group: "friends" } }, "parameters.group"],
      [{ report: "retention", parameters: { clock: "24h", unit: "week" } }, "parameters.clock"],
      [{ report: "retention", parameters: { brackets: "0,1-3" } }, "parameters.brackets"],
      [{ report: "cohorts", parameters: { segmentBy: "property" } }, "parameters.property"],
      [{ report: "funnels", parameters: { steps: "seen" } }, "parameters.steps"],
      [
        { report: "funnels", parameters: { steps: [{ eventType: "a" }, { event: "b" }] } },
        "parameters.steps.1.eventType",
      ],
      [{ report: "funnels", parameters: { ...FUNNEL_BODY, order: "any" } }, "parameters.exclude"],
      [{ report: "experiments", parameters: { metric: "events" } }, "parameters.ruleId"],
      [{ report: "experiments", parameters: { metric: "events", ruleId: "no-rule" } }, "parameters.ruleId"],
      [{ report: "astrology" }, "report"],
      [{ report: "overview", name: " " }, "name"],
      [{ report: "overview", description: "x".repeat(501) }, "description"],
      [{ report: "overview", parameters: { activeEvents: "x".repeat(20_000) } }, "parameters"],
    ];
    for (const [body, field] of refused)
      assert.ok((await refusedFields(body)).includes(field), `${JSON.stringify(body)}: ${field}`);
    assert.equal(must(await api.get(PATH, { key: asker.tenant.key }), 200).pagination.total, 0);
  });

  it("are refused where the plan does not show their range", async () => {
    const { key } = asker.tenant;
    const parameters = { from: "1990-01-01", to: "1990-01-02" };
    must(await api.post(PATH, { name: "Old", report: "overview", parameters }, { key }), 201);
    const free = await anAsker(api);

    await putOnPlan(api, free.tenant.tenantId, "FREE", {});
    const body = { name: "Old", report: "overview", parameters };
    assertError(await api.post(PATH, body, { key: free.tenant.key }), 402, "PLAN_LIMIT_EXCEEDED");
  });

  it("are listed, changed part by part and deleted", async () => {
    const { key } = asker.tenant;
    const first = await save(TRENDS);
    const second = await save({ ...TRENDS, name: "A first", report: "overview", parameters: {} });
    const namesBy = async (query: string): Promise<string[]> =>
      must(await api.get(`${PATH}?${query}`, { key }), 200).data.map(({ name }: { name: string }) => name);
    assert.deepEqual(await namesBy(""), ["A first", "Events"]);
    assert.deepEqual(await namesBy("sort=name&order=desc"), ["Events", "A first"]);
    assert.deepEqual(await namesBy("report=trends&limit=1"), ["Events"]);
    const path = `${PATH}/${first.id}`;
    const named = must(await api.patch(path, { name: "More", description: "Of a week" }, { key }), 200);
    assert.deepEqual(
      [named.name, named.description, named.parameters, named.report],
      ["More", "Of a week", TRENDS.parameters, "trends"],
    );
    const other = await api.patch(path, { report: "overview" }, { key });
    assertError(other, 400);
    assert.equal(other.body.error.details[0].field, "parameters.metric");
    const moved = must(
      await api.patch(path, { parameters: { metric: "events" }, range: { last: 1, unit: "DAY" } }, { key }),
      200,
    );
    assert.deepEqual(moved.range, { last: 1, unit: "DAY", current: false });
    assert.deepEqual(must(await api.get(path, { key }), 200), moved);
    assert.deepEqual(must(await api.delete(`${PATH}/${second.id}`, { key }), 200), { deleted: true });
    assertError(await run(second.id), 404);
    assert.deepEqual(await namesBy(""), ["More"]);
  });

  it("are exported by those who may export", async () => {
    const { tenantId } = asker.tenant;
    const viewer = await aMember(api, tenantId, "VIEWER");
    const developer = await aMember(api, tenantId, "DEVELOPER");
    const { id } = must(await api.post(PATH, TRENDS, { token: developer.token }), 201);
    must(await api.get(`${PATH}/${id}/run`, { token: viewer.token }), 200);
    const file = `${PATH}/${id}/run?format=csv`;
    assertError(await api.get(file, { token: viewer.token }), 403, "INSUFFICIENT_ROLE");
    must(await api.get(file, { token: developer.token }), 200);
  });

  it(`are at most ${REPORTS_MAX} in a project, also when many are saved at once`, async () => {
    const { key } = asker.tenant;
    const body = {
      name: "One of many",
      report: "overview",
      parameters: { period: "today", compare: "none" },
    };
    const answers: Answer[] = [];
    for (let at = 0; at < REPORTS_MAX + 10; at += 11)
      answers.push(...(await Promise.all(Array.from({ length: 11 }, () => api.post(PATH, body, { key })))));
    assert.equal(answers.filter(({ status }) => status === 201).length, REPORTS_MAX);
    assertError(
      answers.findLast(({ status }) => status !== 201)!,
      409,
      "REPORT_LIMIT",
    );
  });
});
