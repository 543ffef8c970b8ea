/**
 * The names of all jobs, by which they are woken: `createJobs` has a job for each. They are also the names of
 * Bull's queues in Redis, which processes of other versions read.
 */
export type JobName =
  | "process-events"
  | "watch-processes"
  | "relay-outbox"
  | "relay-backlogs"
  | "send-mail"
  | "sweep"
  | "partitions"
  | "expire-keys"
  | "prune-ended"
  | "prune-chat"
  | "retention"
  | "delete-tenants"
  | "project-jobs"
  | "expire-rewards"
  | "run-schedules"
  | "flush-rule-stats"
  | "expire-currencies"
  | "end-boosts"
  | "maintain"
  | "sweep-segments"
  | "flush-event-types"
  | "settle-streaks"
  | "advance-lobbies"
  | "leaderboard-periods"
  | "tell-ranks"
  | "deliver-webhooks"
  | "fail-waiting-webhooks";
