import type { Cell } from "./permissions.ts";

const READ: Cell = { roles: "OAGDV", scope: "analytics:read" };
/** Files leave the server: not for those who only look. */
const EXPORT: Cell = { roles: "OAGD", scope: "analytics:read" };

/** Saved reports are definitions of a project. */
const SAVE: Cell = { roles: "OAGD", scope: "config:manage" };

/** Who may call the operations of analytics. */
export const ANALYTICS_PERMISSIONS: Readonly<Record<string, Cell>> = {
  getAnalyticsOverview: READ,
  getAnalyticsTrends: READ,
  getAnalyticsSegments: READ,
  listAnalyticsSegmentPlayers: { roles: "OAGDV", scope: "players:read" },
  getAnalyticsRetention: READ,
  getAnalyticsCohorts: READ,
  getAnalyticsFunnel: READ,
  queryAnalyticsFunnel: READ,
  listAnalyticsPlayers: { roles: "OAGDV", scope: "players:read" },
  queryAnalyticsPlayers: { roles: "OAGDV", scope: "players:read" },
  getAnalyticsExperiment: READ,
  createAnalyticsSegment: { roles: "OAG", scope: "config:manage" },
  createAnalyticsReport: SAVE,
  updateAnalyticsReport: SAVE,
  deleteAnalyticsReport: SAVE,
  listAnalyticsReports: READ,
  getAnalyticsReport: READ,
  runAnalyticsReport: READ,
  listAnalyticsReportRuns: READ,
  startAnalyticsReportRun: SAVE,
  getAnalyticsReportResult: READ,
  exportAnalytics: EXPORT,
  createAnalyticsExport: EXPORT,
  listAnalyticsExports: EXPORT,
  getAnalyticsExport: EXPORT,
  downloadAnalyticsExport: EXPORT,
  deleteAnalyticsExport: EXPORT,
};
