import assert from "node:assert/strict";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import { MAILED_BY_REQUEST_MAX } from "../../src/domain/analytics/reports/runs.ts";
import { runReports } from "../../src/jobs/due-work.ts";
import {
  DAILY,
  DAILY_EVENTS,
  FUNNEL_BODY,
  lasting,
  lately,
  REPORTS,
  savedOfEachKind,
  scheduledOf,
} from "../support/analytics/reports.ts";
import { anAsker } from "../support/analytics/histories.ts";
import { startApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { eventually, pastEdgeOf } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo, mailsTo } from "../support/mail/mailbox.ts";
import { rulesOf } from "../support/rules/rules-api.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const DAY_MS = 86_400_000;

describe("scheduled reports of analytics", () => {
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));
  const at = madeForEach(() => scheduledOf(api, asker));
  const auth = () => ({ key: asker.tenant.key });

  it("keep the answer that their operation gives of the moment they were due, of every kind", async () => {
    await asker.store(lately());
    await rulesOf(api, asker.tenant).publish({ rollout: { percent: 100, holdoutPercent: 50 } });
    const recent = <T extends object>(of: T): T => {
      const { from, to: _, asOf: __, ...rest } = of as Record<string, unknown>;
      return { ...rest, ...(from === undefined ? {} : { period: "30d" }) } as T;
    };
    const saved = savedOfEachKind("lesson").map((one) => ({ ...one, parameters: recent(one.parameters) }));
    const made = [];
    for (const { report, parameters } of saved)
      made.push((await at.save({ name: report, report, parameters, schedule: DAILY })).id);
    const { from: _, to: __, asOf: ___, ...funnel } = { ...FUNNEL_BODY, period: "30d" };
    const ofBody = (await at.save({ name: "Body", report: "funnels", parameters: funnel, schedule: DAILY }))
      .id;
    for (const id of [...made, ofBody]) await at.dueAgo(id, 0.5);
    for (const [i, id] of made.entries()) {
      const { path, query, report } = saved[i]!;
      const [run] = await at.afterTold(id);
      assert.equal(run.status, "SUCCEEDED", `${report}: ${run.error}`);
      const asOf = new Date(Date.parse(run.dueAt) + 1).toISOString();
      const asked = await asker.ask(path, { ...recent(query), asOf });
      const result = `${REPORTS}/${id}/runs/${run.id}/result`;
      const answer = await api.get(result, auth());
      assert.deepEqual(lasting(must(answer, 200)), lasting(asked), report);
      assert.deepEqual([run.range.from, run.range.to], [asked.range.from, asked.range.to]);
      const etag = answer.headers.get("ETag")!;
      assert.equal(
        (await api.get(result, { ...auth(), headers: { "If-None-Match": etag } })).status,
        304,
        report,
      );
      must(
        await api.patch(`${REPORTS}/${id}`, { parameters: { ...saved[i]!.parameters, asOf } }, auth()),
        200,
      );
      assert.deepEqual(
        (await api.get(`${result}?format=csv`, auth())).body,
        (await api.get(`${REPORTS}/${id}/run?format=csv`, auth())).body,
        report,
      );
    }
    const [run] = await at.afterTold(ofBody);
    const asOf = new Date(Date.parse(run.dueAt) + 1).toISOString();
    const asked = await api.post("/api/v1/analytics/funnels", { ...funnel, asOf }, auth());
    const answer = must(await api.get(`${REPORTS}/${ofBody}/runs/${run.id}/result`, auth()), 200);
    assert.deepEqual(lasting(answer), lasting(must(asked, 200)));
  });

  it("run once for the latest time that was missed, and then when they are next due", async () => {
    // Half a day from now: it is not due by itself meanwhile.
    const dueHour = (new Date().getUTCHours() + 12) % 24;
    const daily = { ...DAILY, hour: dueHour, timezone: "Europe/Berlin" };
    const { id, schedule } = await at.save({ ...DAILY_EVENTS, schedule: daily });
    assert.deepEqual(schedule, { ...daily, mailTo: [] });
    await at.dueAgo(id, 9.5);
    const runs = await at.afterTold(id);
    assert.equal(runs.length, 1);
    const { nextRunAt } = must(await api.get(`${REPORTS}/${id}`, auth()), 200);
    const dueMs = Date.parse(runs[0].dueAt);
    assert.ok(dueMs <= Date.now() && Date.parse(nextRunAt) > Date.now());
    const hour = new Intl.DateTimeFormat("en", {
      timeZone: "Europe/Berlin",
      hour: "numeric",
      hourCycle: "h23",
    });
    for (const ms of [dueMs, Date.parse(nextRunAt)]) assert.equal(Number(hour.format(ms)), dueHour);
    const day = new Intl.DateTimeFormat("sv", { timeZone: "Europe/Berlin" });
    assert.equal(Date.parse(day.format(Date.parse(nextRunAt))) - Date.parse(day.format(dueMs)), DAY_MS);
    assert.equal((await at.told("report.ready")).length, 1);
  });

  it("run and are told of once when several workers find them, and some are killed at the end", async () => {
    const member = await aMember(api, asker.tenant.tenantId, "VIEWER");
    const { id } = await at.save({ ...DAILY_EVENTS, schedule: { ...DAILY, mailTo: [member.userId] } });
    await at.dueAgo(id, 1.5);
    let kills = 0;
    /** A worker whose transactions are lost with all they did, now and then. */
    const mortal: App = {
      ...api.app,
      transact: (run) =>
        api.app.transact(async (work) => {
          const result = await run(work);
          // Every other one: what is found is not what is done.
          if (kills < 6 && kills++ % 2 === 1) throw new Error("killed");
          return result;
        }),
    };
    await eventually(
      async () => {
        const runs = [mortal, api.app, mortal, api.app].map((app) => runReports.run(app, "*"));
        await Promise.allSettled(runs);
        return mailsTo(member.email).length > 0;
      },
      { timeoutMs: 60_000 },
    );
    await at.afterTold(id);
    await Promise.all([runReports.run(api.app, "*"), runReports.run(api.app, "*")]);
    assert.equal((await at.runsOf(id)).length, 1);
    assert.equal((await at.told("report.ready")).length, 1);
    assert.equal(mailsTo(member.email).length, 1);
  });

  it("are told of by a mail with a link and no data, to members who may read them then", async () => {
    await asker.store([
      ...lately(),
      ["ada", "scored", new Date(Date.now() - 3 * DAY_MS).toISOString(), { points: 987_654 }],
    ]);
    const { tenantId } = asker.tenant;
    const viewer = await aMember(api, tenantId, "VIEWER");
    const gone = await aMember(api, tenantId, "ADMIN");
    const suspended = await aMember(api, tenantId, "DESIGNER");
    const mailTo = [viewer.userId, gone.userId, suspended.userId];
    const { id } = await at.save({
      ...DAILY_EVENTS,
      name: "Of <b>us</b>",
      parameters: { metric: "sum:scored.points" },
      schedule: { ...DAILY, mailTo },
    });
    must(await api.delete(`/api/v1/team/members/${gone.userId}`, { token: asker.tenant.token }), 200);
    await at.change(sql`update users set status = 'SUSPENDED' where id = ${suspended.userId}::uuid`);
    await at.dueAgo(id, 1);
    const [run] = await at.afterTold(id);
    const mail = await aMailTo(viewer.email, /^The report .* is ready$/);
    const text = mail.text ?? "";
    assert.ok(text.includes(`/analytics/reports/${id}/runs/${run.id}`), text);
    assert.ok(text.includes(`${run.range.from} to ${run.range.to}`));
    assert.ok(!mail.html?.includes("<b>us</b>"));
    const { series } = must(
      await api.get(`${REPORTS}/${id}/runs/${run.id}/result`, { token: viewer.token }),
      200,
    );
    assert.ok(series[0].total >= 987_654);
    assert.ok(!text.includes(String(series[0].total)), "numbers stay behind the sign-in");
    assertError(await api.get(`${REPORTS}/${id}/runs/${run.id}/result`), 401, "CREDENTIALS_MISSING");
    const others = await api.sql`
      select from email_logs where template = 'report-ready'
        and user_id in (${gone.userId}::uuid, ${suspended.userId}::uuid)`;
    assert.equal(others.length, 0);
    assert.deepEqual(await at.told("report.ready"), [
      {
        reportId: id,
        runId: run.id,
        name: "Of <b>us</b>",
        report: "trends",
        dueAt: run.dueAt,
        range: run.range,
        resultUrl: run.resultUrl,
      },
    ]);
  });

  it("that fail are told of with the reason, and run again when they are next due", async () => {
    const member = await aMember(api, asker.tenant.tenantId, "DEVELOPER");
    await rulesOf(api, asker.tenant).publish({ rollout: { percent: 100, holdoutPercent: 50 } });
    const { id } = await at.save({
      name: "Does it help",
      report: "experiments",
      parameters: { ruleId: "lesson", metric: "events" },
      schedule: { ...DAILY, mailTo: [member.userId] },
    });
    await at.change(sql`
      update rules set published_version = null where project_id = ${asker.tenant.projectId}::uuid`);
    await at.dueAgo(id, 0.1);
    const [run] = await at.afterTold(id);
    assert.deepEqual(
      [run.status, run.error, run.range, run.resultUrl],
      ["FAILED", "the rule is not published, so it has no groups", null, null],
    );
    const [failed] = await at.told("report.failed");
    assert.deepEqual([failed?.runId, failed?.error], [run.id, run.error]);
    assert.deepEqual(await at.told("report.ready"), []);
    const mail = await aMailTo(member.email, /could not be made/);
    assert.ok(mail.text?.includes(run.error));
    assertError(await api.get(`${REPORTS}/${id}/runs/${run.id}/result`, auth()), 409, "INVALID_STATE");
    const { nextRunAt } = must(await api.get(`${REPORTS}/${id}`, auth()), 200);
    assert.ok(Date.parse(nextRunAt) > Date.now());
  });

  it("that cannot even be queued hold none of those behind them up", async () => {
    const broken = await at.save({ ...DAILY_EVENTS, name: "Broken" });
    const behind = await at.save({ ...DAILY_EVENTS, name: "Behind" });
    assert.ok(broken.id < behind.id, "the broken one is found first");
    await at.change(sql`
      update analytics_reports set schedule = '{"every":"MONTH","hour":6,"timezone":"UTC"}'
      where id = ${broken.id}::uuid`);
    for (const { id } of [broken, behind]) await at.dueAgo(id, 1);
    const [run] = await at.afterTold(behind.id);
    assert.equal(run.status, "SUCCEEDED");
    assert.deepEqual(await at.runsOf(broken.id), []);
    await at.change(sql`delete from analytics_reports where id = ${broken.id}::uuid`);
  });

  it("run by request send no more than some mails a day", async () => {
    // They are counted by day.
    await pastEdgeOf(DAY_MS, 60_000);
    const member = await aMember(api, asker.tenant.tenantId, "VIEWER");
    const { id } = await at.save({ ...DAILY_EVENTS, schedule: { ...DAILY, mailTo: [member.userId] } });
    for (let n = 1; n <= MAILED_BY_REQUEST_MAX + 2; n++) {
      must(await api.post(`${REPORTS}/${id}/runs`, {}, auth()), 201);
      await at.afterTold(id, n);
    }
    assert.equal((await at.told("report.ready")).length, MAILED_BY_REQUEST_MAX + 2);
    await eventually(() => mailsTo(member.email).length >= MAILED_BY_REQUEST_MAX);
    assert.equal(mailsTo(member.email).length, MAILED_BY_REQUEST_MAX);
    await at.dueAgo(id, 1);
    await at.afterTold(id, MAILED_BY_REQUEST_MAX + 3);
    await eventually(() => mailsTo(member.email).length === MAILED_BY_REQUEST_MAX + 1);
  });

  it("that fail by a fault of the server are tried again before that is told", async () => {
    const { id } = await at.save(DAILY_EVENTS);
    await at.change(sql`
      update analytics_reports set question = question || '{"metric": 5}' where id = ${id}::uuid`);
    await at.dueAgo(id, 0.1);
    const [run] = await eventually(async () => {
      const runs = await at.runsOf(id);
      return runs.length === 1 && runs[0].error !== null && runs;
    });
    assert.equal(run.status, "QUEUED");
    assert.deepEqual(await at.told("report.failed"), []);
    const again = () => at.change(sql`update project_jobs set due_at = now() where id = ${run.id}::uuid`);
    await eventually(
      async () => {
        await again();
        return (await at.runsOf(id))[0].status === "FAILED";
      },
      { timeoutMs: 60_000 },
    );
    await at.afterTold(id);
    assert.equal((await at.told("report.failed")).length, 1);
  });

  it("rest while their tenant is suspended, and run once when that is over", async () => {
    const { id } = await at.save(DAILY_EVENTS);
    const { tenantId } = asker.tenant;
    const setStatus = (status: string) =>
      at.change(sql`update tenants set approval_status = ${status} where id = ${tenantId}::uuid`);
    const other = await at.save({ ...DAILY_EVENTS, name: "Another" });
    await setStatus("SUSPENDED");
    await at.dueAgo(id, 3);
    await at.dueAgo(other.id, 3);
    await runReports.run(api.app, "*");
    const runs = async () => {
      const rows = await api.sql`select from analytics_report_runs where report_id = ${id}::uuid`;
      return rows.length;
    };
    assert.equal(await runs(), 0);
    await setStatus("APPROVED");
    await at.afterTold(id);
    assert.equal(await runs(), 1);
  });
});
