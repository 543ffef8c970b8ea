import assert from "node:assert/strict";
import type { Role } from "../../src/domain/kernel/caller.ts";
import { ANY_JOB, JOB_KINDS } from "../../src/domain/registries/jobs/kinds.ts";
import type { JobAccess } from "../../src/domain/long-work/project-jobs.ts";
import { routes } from "../../src/http/routes.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aJob } from "../support/app/jobs.ts";
import { aMember } from "../support/app/member.ts";
import { madeOnce } from "../support/made.ts";

describe("jobs of a project", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const get = (path: string, key = tenant.key) => api.get(`/api/v1/jobs${path}`, { key });
  const make = (status: "QUEUED" | "SUCCEEDED" = "QUEUED") => aJob(api.app, tenant.projectId, status);

  it("are shown while they wait, and with a result when they are done", async () => {
    const id = await make();
    const job = must(await get(`/${id}`), 200);
    const { createdAt, ...rest } = job;
    assert.ok(Date.parse(createdAt));
    assert.deepEqual(rest, {
      id,
      kind: "BULK_GRANT",
      status: "QUEUED",
      progress: 0,
      error: null,
      createdBy: "system",
      finishedAt: null,
    });
    assertError(await get(`/${id}/result`), 409, "INVALID_STATE");
    const done = await make("SUCCEEDED");
    assert.deepEqual(must(await get(`/${done}/result`), 200), { granted: 1 });
  });

  it("are listed newest first, by kind and state", async () => {
    const owner = await aTenant(api);
    const ids: string[] = [];
    for (const status of ["QUEUED", "SUCCEEDED", "QUEUED"] as const)
      ids.push(await aJob(api.app, owner.projectId, status));
    const list = async (query: string) => {
      const { data, pagination } = must(await get(query, owner.key), 200);
      return [data.map((job: { id: string }) => ids.indexOf(job.id)), pagination.total];
    };
    assert.deepEqual(await list(""), [[2, 1, 0], 3]);
    assert.deepEqual(await list("?status=QUEUED"), [[2, 0], 2]);
    assert.deepEqual(await list("?kind=BULK_GRANT&limit=1&page=3"), [[0], 3]);
    assert.deepEqual(await list("?kind=OTHER"), [[], 0]);
    assertError(await get("?status=LOST", owner.key), 400);
    assertError(await get("?page=0", owner.key), 400);
  });

  it("are seen, listed, read and cancelled by who may start their kind, and by nobody else", async () => {
    const side = await aTenant(api);
    const keyOf = (scopes: readonly string[]) => aKey(api, { ...side, scopes: [...scopes] });
    const callers: { scope?: string; role?: Role; credentials: { key?: string; token?: string } }[] = [];
    for (const scope of ANY_JOB.scope) callers.push({ scope, credentials: { key: await keyOf([scope]) } });
    for (const role of ANY_JOB.roles) {
      const { token } = await aMember(api, side.tenantId, role);
      callers.push({ role, credentials: { token } });
    }
    const jobs: { id: string; open: string; access: JobAccess }[] = [];
    for (const kind of JOB_KINDS) {
      const id = await aJob(api.app, side.projectId, "SUCCEEDED", kind);
      jobs.push({ id, open: await aJob(api.app, side.projectId, "QUEUED", kind), access: kind.access });
    }
    for (const { scope, role, credentials } of callers) {
      const mine = jobs.filter(
        ({ access }) => access.scope === scope || (role && access.roles.includes(role)),
      );
      for (const { id, open, access } of jobs) {
        const status = mine.some((one) => one.id === id) ? 200 : 404;
        const asked = `${scope ?? role} on ${access.scope}`;
        for (const path of [`/${id}`, `/${id}/result`])
          assert.equal((await api.get(`/api/v1/jobs${path}`, credentials)).status, status, `${asked}${path}`);
        if (status === 404) assertError(await api.post(`/api/v1/jobs/${open}/cancel`, {}, credentials), 404);
      }
      const { data, pagination } = must(await api.get("/api/v1/jobs?limit=100", credentials), 200);
      const ids = mine.flatMap(({ id, open }) => [id, open]);
      assert.deepEqual(data.map(({ id }: { id: string }) => id).toSorted(), ids.toSorted());
      assert.equal(pagination.total, ids.length);
    }
  });

  it("have the access of the operation that starts them", () => {
    const starts: Readonly<Record<string, string>> = {
      PLAYER_EXPORT: "exportPlayer",
      PLAYER_ERASE: "erasePlayer",
      BACKFILL: "publishRule",
      QUEST_BACKFILL: "publishQuest",
      BACKTEST: "backtestRule",
      SEGMENT_REFRESH: "createSegment",
      EVENT_REVERT: "revertEvent",
      BULK_REVERT: "revertEvents",
      BULK_GRANT: "startBulkGrant",
      LEVEL_RECALC: "putLevelCurve",
      CLOCK_ADVANCE: "setSandboxClock",
      ANALYTICS_EXPORT: "createAnalyticsExport",
      LIST_SEGMENT: "createAnalyticsSegment",
      ANALYTICS_REPORT: "startAnalyticsReportRun",
    };
    for (const { kind, access } of JOB_KINDS) {
      const route = routes.find(({ id }) => id === starts[kind]);
      assert.ok(route && route.access !== "public", `no operation starts ${kind}`);
      const { scope, roles } = route.access;
      assert.deepEqual({ scope, roles }, access, kind);
    }
  });
});
