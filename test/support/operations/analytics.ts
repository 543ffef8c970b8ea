import { randomInt } from "node:crypto";
import { onePerSide, type Side } from "../app/sides.ts";
import { smallRule, unique } from "./bodies.ts";
import type { Known } from "./operations.ts";
import { eventually } from "../eventually.ts";

const RANGE = "from=2026-01-01&to=2026-01-31&timezone=UTC&weekStart=sunday";

const funnel = () => ({
  from: "2026-01-01",
  to: "2026-01-31",
  timezone: "UTC",
  weekStart: "monday",
  window: "7d",
  order: "ordered",
  steps: [
    { eventType: "swept", label: "Begun" },
    { eventType: "swept", where: { all: [{ path: "v", op: "gte", value: 1 }] } },
    { eventType: "done" },
  ],
  exclude: [{ eventType: "left", where: { path: "a.b", op: "exists" }, fromStep: 1, toStep: 2 }],
  breakdown: { property: "a.b", attribution: "first_touch", limit: 5 },
});

const shortFunnel = () => ({
  period: "7d",
  asOf: "2026-02-01T00:00:00Z",
  steps: [{ eventType: "swept", where: { "properties.v": { gte: 1 } } }, { eventType: "done" }],
});

/** The id of a published rule that half of the players have: one serves all. */
const splitRule = onePerSide(async (side): Promise<string> => {
  const rollout = { percent: 100, holdoutPercent: 50 };
  const { id } = (await side.send("post", "/rules", { ...smallRule(), rollout })).body;
  await side.send("post", `/rules/${id}/publish`, {});
  return id;
});

export const analyticsOperations: Record<string, Known> = {
  getAnalyticsRetention: {
    call: () => ({
      path:
        `/analytics/retention?${RANGE}&unit=day&type=within&offsets=0,1,7&startEvent=swept` +
        "&returnEvent=swept,done&entry=recurring&clock=24h&breakdown=a.b&limit=5",
    }),
  },
  getAnalyticsCohorts: {
    call: () => ({
      path:
        `/analytics/cohorts?${RANGE}&unit=week&periods=4&metric=sum:swept.v&cumulative=true` +
        "&segmentBy=property&property=a.b&limit=5",
    }),
  },
  getAnalyticsFunnel: {
    call: () => ({
      path: `/analytics/funnels?${RANGE}&steps=swept,done&window=7d&order=strict&breakdown=a.b&limit=5`,
    }),
  },
  listAnalyticsPlayers: {
    call: () => ({
      path:
        `/analytics/players?of=funnels&${RANGE}&steps=swept,done&window=7d&order=strict&breakdown=a.b` +
        "&valuesLimit=5&step=1&state=dropped&value=x&limit=5",
    }),
  },
  getAnalyticsExperiment: {
    call: async (side) => ({
      path: `/analytics/experiments/${await splitRule(side)}?${RANGE}&metric=events&population=new`,
    }),
  },
  queryAnalyticsPlayers: {
    call: () => ({
      path: "/analytics/players",
      body: { funnel: { ...funnel(), step: 1, state: "completed", value: "x" }, limit: 5 },
    }),
    also: [() => ({ funnel: { ...shortFunnel(), step: 2 } })],
  },
  createAnalyticsSegment: {
    call: () => ({
      path: "/analytics/players/segment",
      body: {
        key: unique("listed"),
        name: "Listed",
        description: "Those of a list",
        list: { of: "segments", segment: "lifecycle:new", asOf: "2026-02-01T00:00:00Z" },
      },
    }),
    also: [() => ({ key: unique("listed"), name: "Listed", funnel: { ...shortFunnel(), step: 1 } })],
  },
  queryAnalyticsFunnel: { call: () => ({ path: "/analytics/funnels", body: funnel() }), also: [shortFunnel] },
};

const PATH = "/analytics/exports";
const SEGMENTS = { report: "segments" };

/** Deletes what a project keeps: it keeps few. */
const makeRoom = async (side: Side): Promise<void> => {
  const { data } = (await side.send("get", `/api/v1${PATH}`)).body as { data: { id: string }[] };
  for (const { id } of data) await side.send("delete", `/api/v1${PATH}/${id}`);
};

/** The path of an export. */
const anExport = async (side: Side): Promise<string> => {
  await makeRoom(side);
  return `${PATH}/${await side.make(PATH, SEGMENTS)}`;
};

/** The path of an export whose file is complete. */
const aFile = async (side: Side): Promise<string> => {
  const path = await anExport(side);
  const read = () => side.send("get", `/api/v1${path}`);
  await eventually(async () => (await read()).body.status === "SUCCEEDED", { timeoutMs: 60_000 });
  return path;
};

export const analyticsExportOperations: Record<string, Known> = {
  exportAnalytics: { call: () => ({ path: "/analytics/export?report=segments" }) },
  listAnalyticsExports: { call: () => ({ path: PATH }) },
  createAnalyticsExport: {
    call: async (side) => {
      await makeRoom(side);
      return { path: PATH, body: SEGMENTS };
    },
    also: [
      () => ({
        report: "trends",
        format: "csv",
        metric: ["events", "activePlayers"],
        columns: ["date", "value"],
        bom: true,
        raw: true,
      }),
      () => ({ report: "events", format: "csv", flatten: true, period: "7d" }),
    ],
  },
  getAnalyticsExport: { call: async (side) => ({ path: await anExport(side) }) },
  downloadAnalyticsExport: { call: async (side) => ({ path: `${await aFile(side)}/download` }) },
  deleteAnalyticsExport: { call: async (side) => ({ path: await anExport(side) }) },
};

export const analyticsOverviewOperations: Record<string, Known> = {
  getAnalyticsOverview: {
    call: () => ({
      path:
        "/analytics/overview?from=2026-01-01&to=2026-01-02&timezone=UTC&weekStart=sunday" +
        "&compare=custom&compareFrom=2025-12-01&compareTo=2025-12-31&activeEvents=swept",
    }),
  },
  getAnalyticsTrends: {
    call: () => ({
      path:
        "/analytics/trends?period=7d&metric=events,sum:swept.v&interval=day&breakdown=property:a.b&limit=5" +
        "&cumulative=true",
    }),
  },
  listAnalyticsSegmentPlayers: {
    call: () => ({ path: "/analytics/segments/lifecycle/new/players?timezone=UTC&page=1&limit=5" }),
  },
  getAnalyticsSegments: { call: () => ({ path: "/analytics/segments?group=lifecycle&timezone=UTC" }) },
};

/** Another one each time, so that every import has something to change. */
const document = () => ({
  format: "laurel/1",
  levelCurve: { type: "LINEAR", params: { base: randomInt(1, 1_000_000_000), maxLevel: 5 } },
});

export const configurationOperations: Record<string, Known> = {
  exportConfig: { call: () => ({ path: "/config/export" }) },
  diffConfig: { call: () => ({ path: "/config/diff", body: { document: document(), prune: false } }) },
  importConfig: {
    call: () => ({ path: "/config/import", body: { document: document(), dryRun: false, prune: false } }),
  },
  getProjectSettings: { call: () => ({ path: "/project-settings" }) },
  updateProjectSettings: {
    call: () => ({ path: "/project-settings", body: { maxBoostFactor: 5, lives: { max: 3 } } }),
  },
};

const ofJob = (status: "QUEUED" | "SUCCEEDED", suffix = "", body?: object): Known => ({
  call: async (side) => ({ path: `/jobs/${await side.job(status)}${suffix}`, ...(body ? { body } : {}) }),
});

export const jobOperations: Record<string, Known> = {
  listJobs: { call: () => ({ path: "/jobs?status=SUCCEEDED" }) },
  getJob: ofJob("QUEUED"),
  getJobResult: ofJob("SUCCEEDED", "/result"),
  cancelJob: ofJob("QUEUED", "/cancel", {}),
};

const schema = {
  type: "object",
  required: ["amount"],
  properties: { amount: { type: "number", minimum: 0 }, kind: { enum: ["a", "b"] } },
};
const put = { schema, enforcement: "WARN" };

export const eventOperations: Record<string, Known> = {
  retryEvent: { call: async (side) => ({ path: `/events/${await side.failedEvent()}/retry`, body: {} }) },
  revertEvent: {
    call: async (side) => ({
      path: `/events/${await side.event()}/revert`,
      body: { reason: "swept", onShortfall: "CLAMP" },
    }),
  },
  revertEvents: {
    call: async (side) => ({
      path: "/events/revert",
      body: {
        filter: { eventIds: [await side.event()], to: new Date().toISOString() },
        reason: "swept",
        onShortfall: "REJECT",
        dryRun: true,
      },
    }),
  },
  listEventTypes: { call: () => ({ path: "/event-types" }) },
  getEventType: {
    call: async (side) => {
      const name = unique("type");
      await side.putEventType(name, put);
      return { path: `/event-types/${name}` };
    },
  },
  putEventType: {
    call: () => ({ path: `/event-types/${unique("type")}`, body: put }),
    also: [() => ({ schema: null, enforcement: "OFF" })],
  },
};
