import assert from "node:assert/strict";
import { sql } from "kysely";
import { RUNS_KEPT, startRun } from "../../src/domain/analytics/reports/runs.ts";
import { prune, PRUNES } from "../../src/domain/registries/pruning.ts";
import { anAsker } from "../support/analytics/histories.ts";
import { DAILY, DAILY_EVENTS, lately, REPORTS, scheduledOf } from "../support/analytics/reports.ts";
import { startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const DAY_MS = 86_400_000;

describe("runs of saved reports", () => {
  const api = madeOnce(startApp);
  const asker = madeForEach(() => anAsker(api));
  const at = madeForEach(() => scheduledOf(api, asker));
  const auth = () => ({ key: asker.tenant.key });

  it("end without a word where they are cancelled, or their report is deleted", async () => {
    /** A run that no worker comes to. */
    const held = async (id: string): Promise<string> => {
      const { projectId } = asker.tenant;
      return api.app.transact(async (work) => {
        const run = await startRun(work, { projectId, id }, "system");
        await sql`update project_jobs set due_at = '2126-01-01' where id = ${run.id}::uuid`.execute(work.db);
        return run.id;
      });
    };
    const statusOf = async (runId: string): Promise<string> =>
      must(await api.get(`/api/v1/jobs/${runId}`, auth()), 200).status;
    const [deleted, other] = [await at.save(DAILY_EVENTS), await at.save(DAILY_EVENTS)];
    const [gone, cancelled] = [await held(deleted.id), await held(other.id)];
    assert.equal((await at.runsOf(deleted.id))[0].status, "QUEUED");
    must(await api.delete(`${REPORTS}/${deleted.id}`, auth()), 200);
    must(await api.post(`/api/v1/jobs/${cancelled}/cancel`, {}, auth()), 200);
    const [run] = await at.afterTold(other.id);
    assert.deepEqual([run.status, run.resultUrl], ["CANCELLED", null]);
    assertError(await api.get(`${REPORTS}/${deleted.id}/runs`, auth()), 404);
    assert.equal(await statusOf(gone), "CANCELLED");
    await at.change(sql`update project_jobs set due_at = now() where id = ${gone}::uuid`);
    assert.deepEqual([await at.told("report.ready"), await at.told("report.failed")], [[], []]);
    assert.deepEqual(await at.change(sql`select from analytics_report_runs where id = ${gone}::uuid`), []);
  });

  it("are run by request too, of which the last are kept, and their results for a week", async () => {
    const { id } = await at.save({ ...DAILY_EVENTS, schedule: null });
    const started = must(await api.post(`${REPORTS}/${id}/runs`, {}, auth()), 201);
    assert.equal(started.cause, "REQUEST");
    const [run] = await at.afterTold(id);
    assert.deepEqual([run.id, run.status], [started.id, "SUCCEEDED"]);
    const cleared = PRUNES.find(({ table, clears }) => table === "analytics_report_runs" && clears)!;
    const pruneAt = (days: number) =>
      api.app.transact((work) =>
        prune({ ...work, now: new Date(work.now.getTime() + days * DAY_MS) }, cleared, 1_000),
      );
    await pruneAt(6);
    assert.ok((await at.runsOf(id))[0].resultUrl !== null);
    await pruneAt(8);
    const [old] = await at.runsOf(id);
    assert.deepEqual([old.status, old.resultUrl, old.resultUntil], ["SUCCEEDED", null, null]);
    assertError(await api.get(`${REPORTS}/${id}/runs/${run.id}/result`, auth()), 404);
    await at.change(sql`
      insert into analytics_report_runs (project_id, id, report_id, cause, due_at, report, question, status,
        created_at, finished_at, told_at, expires_at)
      select project_id, ('018d08e8-c400-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, report_id, cause,
        due_at, report, question, 'SUCCEEDED', created_at, now(), now(), expires_at
      from analytics_report_runs, generate_series(1, 40) as n where id = ${run.id}::uuid`);
    must(await api.post(`${REPORTS}/${id}/runs`, {}, auth()), 201);
    assert.equal(must(await api.get(`${REPORTS}/${id}/runs`, auth()), 200).pagination.total, RUNS_KEPT);
  });

  it("lose their results when a player of the project is erased", async () => {
    await asker.store(lately());
    const { id } = await at.save({
      ...DAILY_EVENTS,
      parameters: { metric: "events", breakdown: "property:map" },
    });
    await at.dueAgo(id, 1);
    const [run] = await at.afterTold(id);
    must(await api.post("/api/v1/players/ext:user-1/erase", { reason: "asked" }, auth()), 201);
    const result = `${REPORTS}/${id}/runs/${run.id}/result`;
    await eventually(async () => (await api.get(result, auth())).status === 404, { timeoutMs: 60_000 });
    assert.equal((await at.runsOf(id))[0].resultUrl, null);
  });

  it("are planned anew by a change, and not at all without a schedule", async () => {
    const { id } = await at.save({
      ...DAILY_EVENTS,
      parameters: { metric: "events", timezone: "Asia/Kathmandu" },
    });
    const set = async (schedule: unknown) =>
      must(await api.patch(`${REPORTS}/${id}`, { schedule }, auth()), 200) as {
        schedule: { timezone: string } | null;
        nextRunAt: string | null;
      };
    const weekly = await set({ every: "WEEK", weekday: 1, hour: 0 });
    assert.equal(weekly.schedule?.timezone, "Asia/Kathmandu");
    assert.match(weekly.nextRunAt!, /T18:15:00.000Z$/);
    assert.equal(new Date(weekly.nextRunAt!).getUTCDay(), 0);
    must(await api.patch(`${REPORTS}/${id}`, { name: "Other" }, auth()), 200);
    assert.equal(must(await api.get(`${REPORTS}/${id}`, auth()), 200).nextRunAt, weekly.nextRunAt);
    assert.deepEqual(await set(null), {
      ...weekly,
      name: "Other",
      schedule: null,
      nextRunAt: null,
      updatedAt: must(await api.get(`${REPORTS}/${id}`, auth()), 200).updatedAt,
    });
  });

  it("are refused by field, also for members of another team", async () => {
    const other = (await anAsker(api)).tenant;
    const refused: [schedule: object, field: string][] = [
      [{ every: "YEAR", hour: 1 }, "schedule.every"],
      [{ every: "DAY" }, "schedule.hour"],
      [{ every: "DAY", hour: 24 }, "schedule.hour"],
      [{ every: "WEEK", hour: 1 }, "schedule.weekday"],
      [{ every: "MONTH", hour: 1, day: 32 }, "schedule.day"],
      [{ ...DAILY, timezone: "Mars/Olympus" }, "schedule.timezone"],
      [{ ...DAILY, minute: 5 }, "schedule"],
      [{ ...DAILY, mailTo: ["ada@example.com"] }, "schedule.mailTo.0"],
      [{ ...DAILY, mailTo: [asker.tenant.userId, other.userId] }, "schedule.mailTo.1"],
      [{ ...DAILY, mailTo: [asker.tenant.userId, asker.tenant.userId] }, "schedule.mailTo"],
    ];
    for (const [schedule, field] of refused) {
      const answer = await api.post(REPORTS, { ...DAILY_EVENTS, schedule }, auth());
      assertError(answer, 400);
      const fields = answer.body.error.details.map((one: { field: string }) => one.field);
      assert.deepEqual(fields, [field], JSON.stringify(schedule));
    }
  });
});
