import { playerErase } from "../players/erase.ts";
import { playerExport } from "../players/export.ts";
import { segmentRefresh } from "../segments/refresh-job.ts";
import { levelRecalculation } from "../progression/relevel.ts";
import { bulkGrant } from "../rewards/bulk-grant.ts";
import { backfill } from "../rules/insight/backfill.ts";
import { backtest } from "../rules/insight/backtest.ts";
import { eventRevert } from "../tracking/revert/revert-job.ts";
import type { JobKind } from "./job-kind.ts";

/** Every kind of long work. */
export const JOB_KINDS: readonly JobKind[] = [
  playerExport,
  playerErase,
  backfill,
  backtest,
  segmentRefresh,
  eventRevert,
  bulkGrant,
  levelRecalculation,
];
