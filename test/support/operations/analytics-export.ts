import { eventually } from "../eventually.ts";
import type { Side } from "../app/sides.ts";
import type { Known } from "./operations.ts";

const PATH = "/analytics/exports";
const body = { report: "segments" };

/** Deletes what a project keeps: it keeps few. */
const makeRoom = async (side: Side): Promise<void> => {
  const { data } = (await side.send("get", `/api/v1${PATH}`)).body as { data: { id: string }[] };
  for (const { id } of data) await side.send("delete", `/api/v1${PATH}/${id}`);
};

/** The path of an export. */
const anExport = async (side: Side): Promise<string> => {
  await makeRoom(side);
  return `${PATH}/${await side.make(PATH, body)}`;
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
      return { path: PATH, body };
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
