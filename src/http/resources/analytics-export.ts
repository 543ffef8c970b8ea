import { z } from "zod";
import { MEDIA_TYPES, planExport, writeExport } from "../../domain/analytics/exports/reports.ts";
import { BUILDERS, tenantOf } from "../../domain/kernel/caller.ts";
import { ANALYTICS } from "../../domain/kernel/timeouts.ts";
import { Reply, route } from "../route.ts";
import { StreamedBody } from "../compression.ts";
import { ExportQuery, readExportQuery, requireReport } from "./analytics-export-query.ts";

/** What operations of exports have in common. */
export const exporting = {
  tag: "Analytics",
  project: "caller",
  access: { scope: "analytics:read", roles: BUILDERS, needs: { approval: true } },
} as const;

/** Makes browsers save the answer as a file. */
export const asFile = (fileName: string): Record<string, string> => ({
  "Content-Disposition": `attachment; filename="${fileName}"`,
});

export const analyticsExportRoutes = [
  route({
    ...exporting,
    timeouts: ANALYTICS,
    isStream: true,
    readsReplica: true,
    method: "get",
    path: "/analytics/export",
    id: "exportAnalytics",
    summary: "Export a report as a file",
    description:
      "Takes the parameters of the report's own operation; events take from, to, period and filters, " +
      "players segment. The file is of one moment, however long: it ends with the trailer X-Export-Rows, " +
      "and the connection breaks where it cannot be completed. NDJSON of events is what POST " +
      "/events/batch takes.",
    query: ExportQuery,
    errors: ["PAYMENT_REQUIRED"],
    media: ["application/json", "text/csv", "application/x-ndjson"],
    response: z.array(z.record(z.string(), z.unknown())),
    outside: async (app, { projectId, query, caller, signal }) => {
      const { transact } = app;
      const { fields, query: parameters } = await readExportQuery(query);
      requireReport(caller, fields.report);
      const plan = await transact((work) => planExport(work, { projectId, fields, query: parameters }));
      const rows = { role: "web", tenantId: tenantOf(caller), projectIds: [projectId] } as const;
      const parts = {
        transact,
        closing: app.replicaAs(rows),
        hasOneSession: app.limits.hasOneSession === true,
      };
      const body = new StreamedBody({
        kind: "made",
        type: MEDIA_TYPES[fields.format],
        trailers: ["X-Export-Rows"],
        make: async (put) => ({ "X-Export-Rows": String(await writeExport(parts, plan, { put, signal })) }),
      });
      return new Reply(200, body as never, asFile(plan.fileName));
    },
  }),
];
