import { COLUMNS_MAX } from "../../domain/analytics/exports/columns.ts";
import { EXPORT_FILE_MAX_BYTES, EXPORT_KEPT_MS } from "../../domain/analytics/exports/export-job.ts";
import { EXPORTS_MAX } from "../../domain/analytics/exports/stored-exports.ts";
import { LIST_SEGMENT_MAX } from "../../domain/analytics/lists/list-segment.ts";
import { PLAYER_VALUES_MAX_BYTES } from "../../domain/analytics/packed.ts";
import { PARAMETERS_MAX_BYTES } from "../../domain/analytics/reports/fields.ts";
import { RUNS_KEPT } from "../../domain/analytics/reports/runs.ts";
import { REPORTS_MAX } from "../../domain/analytics/reports/saved-reports.ts";
import { MAIL_TO_MAX } from "../../domain/analytics/reports/schedule.ts";
import { type Limit, limit } from "./limit.ts";

/** Limits of analytics. */
export const ANALYTICS_LIMITS: readonly Limit[] = [
  limit("analytics.export.columns", COLUMNS_MAX, "items", "columns of an export"),
  limit("analytics.export.files", EXPORTS_MAX, "items", "exports of a project that are made or kept"),
  limit("analytics.export.file", EXPORT_FILE_MAX_BYTES, "bytes", "the compressed file of an export"),
  limit(
    "analytics.breakdown.player",
    PLAYER_VALUES_MAX_BYTES,
    "bytes",
    "values of one player that a breakdown of a funnel or of retention reads",
  ),
  limit("analytics.list.segment", LIST_SEGMENT_MAX, "items", "players of a list that becomes a segment"),
  limit("analytics.reports", REPORTS_MAX, "items", "saved reports of a project"),
  limit("analytics.report.parameters", PARAMETERS_MAX_BYTES, "bytes", "the parameters of a saved report"),
  limit("analytics.report.runs", RUNS_KEPT, "items", "runs of a saved report that are kept"),
  limit("analytics.report.recipients", MAIL_TO_MAX, "items", "members who are told of a report's runs"),
  limit("analytics.export.kept", EXPORT_KEPT_MS, "ms", "how long a complete export can be downloaded"),
];
