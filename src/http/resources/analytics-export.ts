import { z } from "zod";
import type { App } from "../../app.ts";
import {
  MEDIA_TYPES,
  planExport,
  type Put,
  type ExportFormat,
  writeExport,
} from "../../domain/analytics/exports/reports.ts";
import { BUILDERS, type Caller, tenantOf } from "../../domain/kernel/caller.ts";
import { ANALYTICS } from "../../domain/kernel/timeouts.ts";
import { Reply, group } from "../route.ts";
import type { CursorParts } from "../../domain/kernel/cursor.ts";
import { StreamedBody } from "../compression.ts";
import { ExportQuery, readExportQuery, requireReport } from "./analytics-export-query.ts";

/** What operations of exports have in common. */
export const exporting = group({
  tag: "Analytics",
  project: "caller",
  access: { scope: "analytics:read", roles: BUILDERS, needs: { approval: true } },
});

/** Makes browsers save the answer as a file. */
export const asFile = (fileName: string): Record<string, string> => ({
  "Content-Disposition": `attachment; filename="${fileName}"`,
});

/** What operations have in common that write a file while it is read. */
export const streaming = {
  timeouts: ANALYTICS,
  isStream: true,
  readsReplica: true,
  media: ["application/json", "text/csv", "application/x-ndjson"],
  response: z.array(z.record(z.string(), z.unknown())),
} as const;

type Streamed = {
  projectId: string;
  caller: Caller;
  signal: AbortSignal;
  file: { format: ExportFormat; fileName: string };
};

/** Answers with a file that `write` makes while it is read; a complete one ends with the number of rows. */
export const streamedFile = (
  app: App,
  { projectId, caller, signal, file: { format, fileName } }: Streamed,
  write: (parts: CursorParts, to: { put: Put; signal: AbortSignal }) => Promise<number>,
): Reply<never> => {
  const rows = { role: "web", tenantId: tenantOf(caller), projectIds: [projectId] } as const;
  const parts = {
    transact: app.transact,
    closing: app.replicaAs(rows),
    hasOneSession: app.limits.hasOneSession === true,
  };
  const body = new StreamedBody({
    kind: "made",
    type: MEDIA_TYPES[format],
    trailers: ["X-Export-Rows"],
    make: async (put) => ({ "X-Export-Rows": String(await write(parts, { put, signal })) }),
  });
  return new Reply(200, body as never, asFile(fileName));
};

export const analyticsExportRoutes = [
  exporting.get("/analytics/export", "exportAnalytics", {
    ...streaming,
    summary: "Export a report as a file",
    description:
      "Takes the parameters of the report's own operation; events take from, to, period and filters, " +
      "players segment. The file is of one moment, however long: it ends with the trailer X-Export-Rows, " +
      "and the connection breaks where it cannot be completed. NDJSON of events is what POST " +
      "/events/batch takes.",
    query: ExportQuery,
    errors: ["PAYMENT_REQUIRED"],
    outside: async (app, { projectId, query, caller, signal }) => {
      const { fields, query: parameters } = await readExportQuery(query);
      requireReport(caller, fields.report);
      const plan = await app.transact((work) => planExport(work, { projectId, fields, query: parameters }));
      const file = { format: fields.format, fileName: plan.fileName };
      return streamedFile(app, { projectId, caller, signal, file }, (parts, to) =>
        writeExport(parts, plan, to),
      );
    },
  }),
];
