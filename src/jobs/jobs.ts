import { deleteTenants } from "./delete-tenants.ts";
import { endBoosts } from "./end-boosts.ts";
import { expireCurrencies } from "./expire-currencies.ts";
import { expireKeys } from "./expire-keys.ts";
import type { Job } from "./job.ts";
import { maintain } from "./maintain.ts";
import { partitions } from "./partitions.ts";
import { processEvents } from "./process-events.ts";
import { projectJobs } from "./project-jobs.ts";
import { pruneEnded } from "./prune.ts";
import { relayOutbox } from "./relay-outbox.ts";
import { sendMail } from "./send-mail.ts";
import { sweepDynamicSegments } from "./sweep-segments.ts";
import { sweep } from "./sweep.ts";

/** Every job a worker runs. */
export const jobs: readonly Job[] = [
  processEvents,
  relayOutbox,
  sendMail,
  sweep,
  partitions,
  expireKeys,
  pruneEnded,
  deleteTenants,
  projectJobs,
  expireCurrencies,
  endBoosts,
  maintain,
  sweepDynamicSegments,
];
