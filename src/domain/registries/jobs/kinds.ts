import { analyticsExport } from "../../analytics/exports/export-job.ts";
import { listSegment } from "../../analytics/lists/list-segment.ts";
import { reportRun } from "../../analytics/reports/schedule.ts";
import { levelRecalculation } from "../../economy/levels/relevel.ts";
import { bulkGrant } from "../../economy/rewards/references.ts";
import { segmentRefresh } from "../../economy/segments/sweeps.ts";
import type { Caller, Role, Scope } from "../../kernel/caller.ts";
import type { JobAccess, JobKind, SeenJobs } from "../../long-work/project-jobs.ts";
import { playerErase, playerExport } from "../../player-lifecycle/erase.ts";
import { clockAdvance } from "../clock/test-clock.ts";
import { bulkRevert } from "../../revert/bulk/bulk-revert.ts";
import { eventRevert } from "../../revert/revert-events.ts";
import { backtest } from "../../rules/insight/backtest.ts";
import { backfill, questBackfill } from "../../rules/insight/recount-players.ts";

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

const opens = ({ scope, roles }: JobAccess, caller: Caller): boolean => {
  if (caller.kind === "key") return caller.scopes.includes(scope);
  return caller.kind === "user" && roles.includes(caller.role);
};

/** Returns which jobs a caller may see, read and cancel: those that they may start. */
export const jobsSeenBy = (caller: Caller): SeenJobs => ({
  kinds: JOB_KINDS.filter(({ access }) => opens(access, caller)).map(({ kind }) => kind),
  scopes: caller.kind === "key" ? caller.scopes : undefined,
});

/** The scopes and roles that see at least one kind of job. */
export const ANY_JOB: { scope: readonly Scope[]; roles: readonly Role[] } = {
  scope: [...new Set(JOB_KINDS.map(({ access }) => access.scope))],
  roles: [...new Set(JOB_KINDS.flatMap(({ access }) => access.roles))],
};
