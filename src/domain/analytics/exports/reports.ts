import type { Scope } from "../../kernel/access.ts";
import { overviewReport, segmentReport, trendReport } from "./computed-reports.ts";
import { eventReport } from "./event-report.ts";
import { playerReport } from "./player-report.ts";
import type { Report } from "./report.ts";
import { cohortReport, funnelReport, retentionReport } from "./return-reports.ts";

/** Every report that can be exported. `scope`: what a key needs beside analytics:read. */
export const REPORTS = {
  events: { report: eventReport, scope: "events:read" },
  players: { report: playerReport, scope: "players:read" },
  overview: { report: overviewReport, scope: undefined },
  trends: { report: trendReport, scope: undefined },
  segments: { report: segmentReport, scope: undefined },
  retention: { report: retentionReport, scope: undefined },
  cohorts: { report: cohortReport, scope: undefined },
  funnels: { report: funnelReport, scope: undefined },
} as const satisfies Record<string, { report: Report; scope: Scope | undefined }>;
export type ReportName = keyof typeof REPORTS;
export const REPORT_NAMES = Object.keys(REPORTS) as ReportName[];
