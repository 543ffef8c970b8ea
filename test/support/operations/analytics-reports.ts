import type { Side } from "../app/sides.ts";
import { eventually } from "../eventually.ts";
import { unique } from "./bodies.ts";
import type { Known } from "./operations.ts";

const PATH = "/analytics/reports";

const changes = () => ({
  name: unique("Report"),
  description: "Of a week",
  report: "trends",
  parameters: { metric: ["events"], interval: "day", compare: "none" },
  range: { last: 1, unit: "WEEK", current: false },
  schedule: { every: "WEEK", weekday: 1, hour: 6, timezone: "UTC", mailTo: [] },
});

const body = () => ({ key: unique("report"), ...changes() });

const monthly = () => ({
  name: unique("Report"),
  report: "segments",
  parameters: { group: "lifecycle" },
  schedule: { every: "MONTH", day: 31, hour: 0 },
});

/** Deletes reports where a project has many: there is room for few. */
const makeRoom = async (side: Side): Promise<void> => {
  const { data } = (await side.send("get", `/api/v1${PATH}?limit=100`)).body as { data: { id: string }[] };
  if (data.length < 80) return;
  for (const { id } of data) await side.send("delete", `/api/v1${PATH}/${id}`);
};

/** The path of a report. */
const aReport = async (side: Side): Promise<string> => {
  await makeRoom(side);
  return `${PATH}/${await side.make(PATH, body())}`;
};

/** The path of a run that has a result. */
const aRun = async (side: Side): Promise<string> => {
  const path = `${await aReport(side)}/runs`;
  await side.make(path, undefined);
  const read = () => side.send("get", `/api/v1${path}`);
  return eventually(
    async () => {
      const [run] = (await read()).body.data as { id: string; status: string }[];
      return run?.status === "SUCCEEDED" && `${path}/${run.id}`;
    },
    { timeoutMs: 60_000 },
  );
};

export const analyticsReportOperations: Record<string, Known> = {
  createAnalyticsReport: {
    call: async (side) => {
      await makeRoom(side);
      return { path: PATH, body: body() };
    },
    also: [monthly],
  },
  listAnalyticsReports: { call: () => ({ path: `${PATH}?report=trends&limit=5` }) },
  getAnalyticsReport: { call: async (side) => ({ path: await aReport(side) }) },
  updateAnalyticsReport: {
    call: async (side) => ({ path: await aReport(side), body: changes() }),
    also: [() => ({ description: null, schedule: null })],
  },
  deleteAnalyticsReport: { call: async (side) => ({ path: await aReport(side) }) },
  runAnalyticsReport: { call: async (side) => ({ path: `${await aReport(side)}/run` }) },
  listAnalyticsReportRuns: { call: async (side) => ({ path: `${await aReport(side)}/runs` }) },
  startAnalyticsReportRun: { call: async (side) => ({ path: `${await aReport(side)}/runs` }) },
  getAnalyticsReportResult: { call: async (side) => ({ path: `${await aRun(side)}/result` }) },
};
