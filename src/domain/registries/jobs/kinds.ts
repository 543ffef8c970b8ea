import { playerErase } from "../../player-lifecycle/erase.ts";
import { playerExport } from "../../player-lifecycle/export.ts";
import { segmentRefresh } from "../../economy/segments/refresh-job.ts";
import { levelRecalculation } from "../../economy/levels/relevel.ts";
import { bulkGrant } from "../../economy/rewards/bulk-grant.ts";
import { backfill } from "../../rules/insight/backfill.ts";
import { questBackfill } from "../../rules/insight/quest-backfill.ts";
import { backtest } from "../../rules/insight/backtest.ts";
import { clockAdvance } from "../clock/advance.ts";
import { bulkRevert } from "../../revert/bulk/bulk-revert.ts";
import { analyticsExport } from "../../analytics/exports/export-job.ts";
import { reportRun } from "../../analytics/reports/run-job.ts";
import { listSegment } from "../../analytics/lists/list-segment.ts";
import { eventRevert } from "../../revert/revert-job.ts";
import type { JobKind } from "../../long-work/job-kind.ts";

/** Every kind of long-running work. */
export const JOB_KINDS: readonly JobKind[] = [
  playerExport,
  playerErase,
  backfill,
  questBackfill,
  backtest,
  segmentRefresh,
  eventRevert,
  bulkRevert,
  bulkGrant,
  levelRecalculation,
  clockAdvance,
  analyticsExport,
  listSegment,
  reportRun,
];
