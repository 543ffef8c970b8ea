/**
 * Jobs that one process may wake in another, each through a queue of this name in Redis, which processes of
 * other versions read. The connection of a queue costs a little also when nothing happens.
 */
export const QUEUED_JOBS = [
  "process-events",
  "relay-outbox",
  "send-mail",
  "project-jobs",
  "deliver-webhooks",
] as const;
export type QueuedJobName = (typeof QUEUED_JOBS)[number];

/** The names of all jobs, by which they are woken: `createJobs` has a job for each. */
export type JobName =
  | QueuedJobName
  | "watch-processes"
  | "relay-backlogs"
  | "sweep"
  | "partitions"
  | "expire-keys"
  | "prune-ended"
  | "prune-chat"
  | "retention"
  | "delete-tenants"
  | "expire-rewards"
  | "run-schedules"
  | "run-reports"
  | "flush-rule-stats"
  | "expire-currencies"
  | "end-boosts"
  | "maintain"
  | "sweep-segments"
  | "flush-event-types"
  | "settle-quests"
  | "settle-adventures"
  | "settle-streaks"
  | "advance-lobbies"
  | "follow-clocks"
  | "leaderboard-periods"
  | "tell-ranks"
  | "roll-up-analytics"
  | "export-warehouse"
  | "check-domains"
  | "order-certificates"
  | "tell-of-certificates"
  | "tell-of-usage"
  | "reseal-secrets"
  | "sync-billing"
  | "mark-replica"
  | "fail-waiting-webhooks";
