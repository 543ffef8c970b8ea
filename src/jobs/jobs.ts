import { advanceLobbies } from "./advance-lobbies.ts";
import { deleteTenants } from "./delete-tenants.ts";
import { createDeliverWebhooks } from "./deliver-webhooks.ts";
import { endBoosts } from "./end-boosts.ts";
import { expireCurrencies } from "./expire-currencies.ts";
import { expireKeys } from "./expire-keys.ts";
import { expireRewards } from "./expire-rewards.ts";
import { failWaitingWebhooks } from "./fail-waiting-webhooks.ts";
import { flushEventTypes } from "./flush-event-types.ts";
import { flushRuleStats } from "./flush-rule-stats.ts";
import type { AnyJob } from "./job.ts";
import { leaderboardPeriods } from "./leaderboard-periods.ts";
import { maintain } from "./maintain.ts";
import { partitions } from "./partitions.ts";
import { createProcessEvents } from "./process-events.ts";
import { createProjectJobs } from "./project-jobs.ts";
import { pruneChat } from "./prune-chat.ts";
import { pruneEnded } from "./prune.ts";
import { createRelayOutbox } from "./relay-outbox.ts";
import { runSchedules } from "./run-schedules.ts";
import { sendMail } from "./send-mail.ts";
import { settleStreaks } from "./settle-streaks.ts";
import { sweepDynamicSegments } from "./sweep-segments.ts";
import { sweep } from "./sweep.ts";
import { tellRanks } from "./tell-ranks.ts";

/** Creates every job that a worker process runs, with its state between runs. */
export const createJobs = (): readonly AnyJob[] => [
  createProcessEvents(),
  createRelayOutbox(),
  sendMail,
  sweep,
  partitions,
  expireKeys,
  pruneEnded,
  pruneChat,
  deleteTenants,
  createProjectJobs(),
  expireRewards,
  runSchedules,
  flushRuleStats,
  expireCurrencies,
  endBoosts,
  maintain,
  sweepDynamicSegments,
  flushEventTypes,
  settleStreaks,
  advanceLobbies,
  leaderboardPeriods,
  tellRanks,
  createDeliverWebhooks(),
  failWaitingWebhooks,
];
