import { advanceLobbies } from "./advance-lobbies.ts";
import { deleteTenants } from "./delete-tenants.ts";
import { checkDomains } from "./check-domains.ts";
import { createDeliverWebhooks } from "./deliver-webhooks.ts";
import { endBoosts } from "./end-boosts.ts";
import { createExportWarehouse } from "./export-warehouse.ts";
import { expireCurrencies } from "./expire-currencies.ts";
import { expireKeys } from "./expire-keys.ts";
import { expireRewards } from "./expire-rewards.ts";
import { failWaitingWebhooks } from "./fail-waiting-webhooks.ts";
import { flushEventTypes } from "./flush-event-types.ts";
import { flushRuleStats } from "./flush-rule-stats.ts";
import type { AnyJob } from "./job.ts";
import { followClocks } from "./follow-clocks.ts";
import { leaderboardPeriods } from "./leaderboard-periods.ts";
import { maintain } from "./maintain.ts";
import type { JobName } from "./names.ts";
import { createOrderCertificates } from "./order-certificates.ts";
import { partitions } from "./partitions.ts";
import { createEventJobs } from "./event-jobs.ts";
import { createProjectJobs } from "./project-jobs.ts";
import { pruneChat } from "./prune-chat.ts";
import { pruneEnded } from "./prune.ts";
import { createRelayJobs } from "./relay-outbox.ts";
import { resealSecrets } from "./reseal-secrets.ts";
import { retention } from "./retention.ts";
import { markReplica } from "./mark-replica.ts";
import { rollUpAnalytics } from "./roll-up-analytics.ts";
import { runReports } from "./run-reports.ts";
import { runSchedules } from "./run-schedules.ts";
import { sendMail } from "./send-mail.ts";
import { settleAdventures } from "./settle-adventures.ts";
import { settleQuests } from "./settle-quests.ts";
import { settleStreaks } from "./settle-streaks.ts";
import { sweepDynamicSegments } from "./sweep-segments.ts";
import { createSyncBilling } from "./sync-billing.ts";
import { createSweep } from "./sweep.ts";
import { tellOfExpiringCertificates } from "./tell-of-certificates.ts";
import { tellOfUsage } from "./tell-usage.ts";
import { tellRanks } from "./tell-ranks.ts";

/**
 * Creates every job that a worker process runs, with its state between runs. A name that can be
 * woken and has no job does not compile.
 */
export const createJobs = (): Readonly<Record<JobName, AnyJob>> => {
  const jobs = createTimedJobs();
  return { ...jobs, sweep: createSweep(jobs) };
};

const createTimedJobs = (): Readonly<Record<Exclude<JobName, "sweep">, AnyJob>> => ({
  ...createEventJobs(),
  ...createRelayJobs(),
  "send-mail": sendMail,
  partitions,
  "expire-keys": expireKeys,
  "prune-ended": pruneEnded,
  "prune-chat": pruneChat,
  retention,
  "delete-tenants": deleteTenants,
  "project-jobs": createProjectJobs(),
  "expire-rewards": expireRewards,
  "run-schedules": runSchedules,
  "run-reports": runReports,
  "flush-rule-stats": flushRuleStats,
  "expire-currencies": expireCurrencies,
  "end-boosts": endBoosts,
  maintain,
  "sweep-segments": sweepDynamicSegments,
  "flush-event-types": flushEventTypes,
  "settle-quests": settleQuests,
  "settle-adventures": settleAdventures,
  "settle-streaks": settleStreaks,
  "advance-lobbies": advanceLobbies,
  "follow-clocks": followClocks,
  "leaderboard-periods": leaderboardPeriods,
  "tell-ranks": tellRanks,
  "roll-up-analytics": rollUpAnalytics,
  "export-warehouse": createExportWarehouse(),
  "check-domains": checkDomains,
  "order-certificates": createOrderCertificates(),
  "tell-of-certificates": tellOfExpiringCertificates,
  "tell-of-usage": tellOfUsage,
  "reseal-secrets": resealSecrets,
  "sync-billing": createSyncBilling(),
  "mark-replica": markReplica,
  "deliver-webhooks": createDeliverWebhooks(),
  "fail-waiting-webhooks": failWaitingWebhooks,
});
