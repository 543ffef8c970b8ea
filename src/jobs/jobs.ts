import { sql } from "kysely";
import type { App } from "../app.ts";
import { markExpiredKeys } from "../domain/accounts/api-keys/api-key.ts";
import { tellUsage } from "../domain/accounts/billing/usage-notices.ts";
import { checkDueDomains, isCheckDue } from "../domain/accounts/domains/transition.ts";
import { deleteDueTenants } from "../domain/accounts/tenants/tenants.ts";
import {
  closeDays,
  findDueRollups,
  forgetUncounted,
  haltRollups,
  rollUp,
} from "../domain/analytics/rollups/roll-up.ts";
import { TooLarge } from "../domain/analytics/rollups/holders.ts";
import {
  ADVENTURE_ENDS,
  DUE_ADVENTURES,
  settlePlayersAdventures,
} from "../domain/economy/adventures/change-adventures.ts";
import { DUE_BOOSTS, endPlayersBoosts } from "../domain/economy/boosts/kind.ts";
import {
  DUE_HOLDS,
  DUE_LOTS,
  expirePlayersHolds,
  expirePlayersLots,
} from "../domain/economy/currencies/kind.ts";
import { BADGE_EDITS } from "../domain/economy/badges/kind.ts";
import { DUE_QUESTS, QUEST_ENDS, settlePlayersQuests } from "../domain/economy/quests/due.ts";
import { expireGrants } from "../domain/economy/rewards/player-rewards.ts";
import { STREAK_EDITS } from "../domain/economy/streaks/kind.ts";
import { DUE_STREAKS, settlePlayersStreaks } from "../domain/economy/streaks/player-streaks.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import { outageOf } from "../domain/kernel/outages.ts";
import { mapInSlices } from "../domain/kernel/slices.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Work } from "../domain/kernel/work.ts";
import { areNoticesDue, sendDueNotices } from "../domain/leaderboards/notices/send.ts";
import { areJobsDue, JobSteps } from "../domain/long-work/step-job.ts";
import {
  areEndsMoved,
  arePlayersDue,
  type EndingRows,
  followEnd,
  movedEnds,
} from "../domain/progression/moved-ends.ts";
import { writeStats } from "../domain/progression/save.ts";
import { followClock, sandboxesAhead } from "../domain/registries/clock/test-clock.ts";
import { JOB_KINDS } from "../domain/registries/jobs/kinds.ts";
import { ensurePartitions } from "../domain/registries/retention.ts";
import { resealPage, SEALED_VALUES, type SealedValue } from "../domain/registries/sealed-values.ts";
import { writeEventTypes } from "../domain/tracking/event-type-recorder.ts";
import { createRelayJobs, createSyncBilling, runReports, runSchedules, sweepDue } from "./due-work.ts";
import { type AnyJob, isolated, type Job } from "./job.ts";
import { createProcessEvents } from "./process-events.ts";
import type { JobName } from "./queue.ts";
import {
  advanceLobbies,
  createDeliverWebhooks,
  createOrderCertificates,
  createSweep,
  failWaitingWebhooks,
  leaderboardPeriods,
  maintain,
  markReplica,
  pruneChat,
  pruneEnded,
  retention,
  sendMail,
  sweepDynamicSegments,
  tellOfExpiringCertificates,
} from "./sweeps.ts";
import { createExportWarehouse } from "./warehouse.ts";

/** Looks at the records of custom domains that are due. */
const checkDomains: Job = {
  isDue: isCheckDue,
  run: async ({ config, transact, dns, mail, domains }) => {
    if (!config.domains) return;
    const hasOwnCertificates = config.domains.acme !== undefined;
    await checkDueDomains({ transact, dns, mail, ingress: config.domains, hasOwnCertificates });
    domains.forget();
  },
};

/** Deletes tenants whose cancellation period is over. */
export const deleteTenants: Job = {
  timeouts: STEP,
  everyMs: 3_600_000,
  run: async (app) => {
    while ((await app.transact(deleteDueTenants)) > 0) await app.limits.pause?.();
  },
};

/** Ends expired boosts, so that their players are notified. */
export const endBoosts: Job = {
  isDue: arePlayersDue(DUE_BOOSTS),
  run: (app) => sweepDue(app, { due: DUE_BOOSTS, settle: endPlayersBoosts }),
};

/** Releases expired holds, and removes expired currency lots. */
export const expireCurrencies: Job = {
  isDue: (at) => sql`(${arePlayersDue(DUE_HOLDS)(at)} or ${arePlayersDue(DUE_LOTS)(at)})`,
  run: async (app) => {
    await sweepDue(app, { due: DUE_HOLDS, settle: expirePlayersHolds });
    await sweepDue(app, { due: DUE_LOTS, settle: expirePlayersLots });
  },
};

/** Marks API keys that have passed their expiry time as expired. */
const expireKeys: Job = {
  everyMs: 3_600_000,
  run: (app) => app.transact(markExpiredKeys),
};

/** Grants per transaction. */
const GRANTS_AT_ONCE = 1_000;

/** Marks unclaimed rewards as expired. */
const expireRewards: Job = {
  everyMs: 60_000,
  run: async (app) => {
    while ((await app.transact((work) => expireGrants(work, GRANTS_AT_ONCE))) === GRANTS_AT_ONCE)
      await app.limits.pause?.();
  },
};

/** Types per transaction: the observed properties may be 20 kB each. */
const TYPES_AT_ONCE = 50;
/** Rows per transaction: rules that were evaluated since the last one. */
const STATS_AT_ONCE = 500;

type Recorder<T> = { take(): T[]; describe?(row: T): T; restore(rows: readonly T[]): void };
type Writing<T> = { atOnce: number; write(work: Work, some: T[]): Promise<unknown> };

/** Writes what was recorded; rows that could not be written are kept for the next run. */
const flush = async <T>({ transact }: App, recorder: Recorder<T>, to: Writing<T>): Promise<void> => {
  const rows = recorder.take();
  while (rows.length > 0) {
    const some = await mapInSlices(rows.splice(0, to.atOnce), recorder.describe ?? ((row) => row));
    try {
      await transact((work) => to.write(work, some));
    } catch (error) {
      recorder.restore([...some, ...rows]);
      throw error;
    }
  }
};

/** A job that writes what this process has recorded, also when it stops. One that is killed loses it. */
const flushing = (everyMs: number, run: (app: App) => Promise<void>): Job => ({
  everyMs,
  staysHere: true,
  run,
  atStop: run,
});

/** Adds the event types observed by workers to the table. */
export const flushEventTypes = flushing(5_000, (app) =>
  flush(app, app.eventTypes, { atOnce: TYPES_AT_ONCE, write: writeEventTypes }),
);

/** Adds the rule statistics counted by workers to the table. */
export const flushRuleStats = flushing(10_000, (app) =>
  flush(app, app.ruleStats, { atOnce: STATS_AT_ONCE, write: writeStats }),
);

/** Maximum steps of a sandbox in a run: those behind it, and others that are advanced, have their turn. */
const STEPS_MAX = 100;

/** @returns whether the sandbox may have another step */
const stepOne = (app: App, projectId: string): Promise<boolean | undefined> =>
  isolated(app, { projectId }, "what is due in a sandbox could not be done", async () => {
    const isMore = await app.transact((work) => followClock(work, projectId));
    if (isMore) await app.limits.pause?.();
    return isMore;
  });

/** Does a step of each in turn. */
const followAll = async (app: App, projectIds: readonly string[]): Promise<void> => {
  let left = projectIds;
  for (let n = 0; n < STEPS_MAX && left.length > 0; n++) {
    const busy: string[] = [];
    for (const projectId of left) if (await stepOne(app, projectId)) busy.push(projectId);
    left = busy;
  }
};

/** Does what falls due in sandboxes by their own clocks, as these go on after an advance. */
export const followClocks: Job = {
  timeouts: STEP,
  everyMs: 10_000,
  run: async (app) => {
    for (let after: string | undefined; ;) {
      const page = await app.transact((work) => sandboxesAhead(work, after));
      await followAll(app, page);
      after = page.at(-1);
      if (after === undefined) return;
    }
  },
};

/**
 * Makes rows of players due by the ends of their definitions that were moved. A definition that fails delays
 * no other, and is tried again by the next run.
 */
const followMovedEnds = async (app: App, rows: EndingRows): Promise<void> => {
  const { kind } = rows;
  for (const moved of await app.transact((work) => movedEnds(work, rows)))
    await isolated(app, { moved, kind }, "an end that was moved could not be followed", async () => {
      while ((await app.transact((work) => followEnd(work, rows, moved))) === "MORE")
        await app.limits.pause?.();
    });
};

/** Creates the partitions of large tables ahead of time. */
const partitions: Job = {
  timeouts: STEP,
  everyMs: 3_600_000,
  run: (app) => app.transact(ensurePartitions),
};

const stepsOf = ({ transact, log }: App): JobSteps =>
  new JobSteps({
    transact,
    kinds: JOB_KINDS,
    onError: (error, jobId) => logStep(log, error, jobId),
  });

/** A refusal is the result of its job, which shows it to the customer; anything else is for operators. */
const logStep = (log: App["log"], err: unknown, jobId: string): void => {
  if (!(err instanceof DomainError) || err.status >= 500) log.error({ err, jobId }, "a job's step failed");
  else log.info({ jobId, code: err.code, reason: err.reason }, "a job was refused");
};

/** Performs steps of projects' long-running work until none is due. */
export const createProjectJobs = (): Job => {
  let steps: JobSteps | undefined;
  return {
    timeouts: STEP,
    isDue: areJobsDue,
    run: async (app) => {
      steps ??= stepsOf(app);
      while (await steps.step()) await app.limits.pause?.();
    },
  };
};

const HOUR_MS = 3_600_000;
/** Values per transaction. */
const VALUES_AT_ONCE = 200;

/** Seals what is kept for long under the first key of ENCRYPTION_KEYS, so that others can be taken away. */
export const resealSecrets: Job = {
  timeouts: STEP,
  everyMs: HOUR_MS,
  run: async (app) => {
    for (const value of SEALED_VALUES)
      await isolated(app, { value: value.name }, "secrets could not be encrypted anew", () =>
        resealAll(app, value),
      );
  },
};

const resealAll = async (app: App, value: SealedValue): Promise<void> => {
  const { secretBox, log } = app;
  let [sealed, unreadable] = [0, 0];
  let after: string | undefined;
  do {
    const from = { after, limit: VALUES_AT_ONCE };
    const page = await app.transact((work) => resealPage(work, secretBox, value, from));
    sealed += page.sealed;
    unreadable += page.unreadable;
    after = page.next;
    await app.limits.pause?.();
  } while (after !== undefined);
  const { name } = value;
  if (sealed > 0) log.info({ value: name, count: sealed }, "secrets were encrypted anew with the first key");
  if (unreadable > 0)
    log.warn(
      { value: name, count: unreadable },
      "secrets cannot be read: their key is not in ENCRYPTION_KEYS",
    );
};

const EVERY_MS = 60_000;
/** Projects of one run. */
const PROJECTS_AT_ONCE = 500;
/** Rows that are forgotten in one transaction. */
const EVENTS_AT_ONCE = 1_000;

/** Moves the rollups of a project on by one step. @returns whether there is more to do at once */
const moveOn = async (app: App, projectId: string): Promise<boolean> => {
  try {
    const state = await app.transact((work) => rollUp(work, projectId));
    return state === "DONE" ? await app.transact((work) => closeDays(work, projectId)) : state === "MORE";
  } catch (err) {
    if (err instanceof TooLarge) await app.transact((work) => haltRollups(work, projectId));
    const outage = outageOf(err);
    // It is nobody's fault, and would be met by each of the others.
    if (outage !== undefined && outage !== "busy") throw err;
    // The others go on, and this one is tried again.
    app.log.error({ err, projectId }, "rollups of analytics failed");
    return false;
  }
};

/** Adds what came to the rollups of analytics, and takes away what stopped to count. */
export const rollUpAnalytics: Job = {
  timeouts: STEP,
  everyMs: EVERY_MS,
  run: async (app) => {
    let due = await app.transact((work) => findDueRollups(work, PROJECTS_AT_ONCE));
    // In turns: a project with years to roll up keeps no other waiting.
    while (due.length > 0) {
      const left: string[] = [];
      for (const projectId of due) {
        if (await moveOn(app, projectId)) left.push(projectId);
        await app.limits.pause?.();
      }
      due = left;
    }
    while (await app.transact((work) => forgetUncounted(work, EVENTS_AT_ONCE))) await app.limits.pause?.();
  },
};

/** Follows definitions that were edited, and settles what is due of the players' rows. */
const endsJob = (ends: EndingRows, sweep?: Parameters<typeof sweepDue>[1]): Job => ({
  isDue: () => areEndsMoved(ends),
  run: async (app) => {
    await followMovedEnds(app, ends);
    if (sweep) await sweepDue(app, sweep);
  },
});

/** Unlocks items of adventures whose time has come, and expires adventures that are over. */
export const settleAdventures = endsJob(ADVENTURE_ENDS, {
  due: DUE_ADVENTURES,
  settle: settlePlayersAdventures,
});
/** Expires quests whose time limit, cycle or claim window is over. */
export const settleQuests = endsJob(QUEST_ENDS, { due: DUE_QUESTS, settle: settlePlayersQuests });
/** Warns of streaks that end soon, settles those that are over, and follows edited ones. */
export const settleStreaks = endsJob(STREAK_EDITS, { due: DUE_STREAKS, settle: settlePlayersStreaks });
/** Awards edited badges to those who have reached what they ask now. */
export const awardBadges = endsJob(BADGE_EDITS);

/** Notifies players of rank changes that came too soon after their last notice. */
const tellRanks: Job = {
  isDue: areNoticesDue,
  run: async (app) => {
    while (await sendDueNotices(app)) await app.limits.pause?.();
  },
};

/** Mails tenants that have used 80 or 100 percent of what their plan includes in a month. */
const tellOfUsage: Job = {
  everyMs: 60_000,
  run: async ({ transact, mail }) => {
    while (await transact((work) => tellUsage(work, mail)));
  },
};

/**
 * Creates every job that a worker process runs, with its state between runs. A name that can be
 * woken and has no job does not compile.
 */
export const createJobs = () => {
  const jobs = createTimedJobs();
  return { ...jobs, sweep: createSweep(jobs) };
};

const createTimedJobs = () =>
  ({
    "process-events": createProcessEvents(),
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
    "award-badges": awardBadges,
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
  }) satisfies Record<JobName, AnyJob> & Record<string, AnyJob>;
