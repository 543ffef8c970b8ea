import { sql } from "kysely";
import type { App } from "../app.ts";
import { tellOfFailingRenewals } from "../domain/accounts/domains/states.ts";
import { isOrderDue, orderDueCertificates } from "../domain/accounts/domains/order.ts";
import {
  type ClaimedMail,
  claimMail,
  failureOf,
  isMailDue,
  MAIL_LANES,
  type MailFailure,
  noteFailure,
  noteSent,
  openMail,
} from "../domain/accounts/email/deliveries.ts";
import type { RenderedMail } from "../domain/accounts/email/mail.ts";
import { tellOfCertificates } from "../domain/accounts/sso/domains.ts";
import { forgetStopped } from "../domain/analytics/warehouse/manifest.ts";
import {
  areDeliveriesPending,
  failLongWaiting,
  findUndelivered,
  FIRST_WEBHOOK,
} from "../domain/delivery/webhooks/delivering/claim.ts";
import {
  areSegmentsDue,
  CHANGES_AT_ONCE,
  queueSegmentRefreshes,
  sweepSegments,
} from "../domain/economy/segments/sweeps.ts";
import { isLockConflict } from "../domain/kernel/outages.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import {
  areListsDue,
  beginClosing,
  closingLists,
  type ClosingStep,
  projectsToClose,
  stepClosing,
} from "../domain/leaderboards/periods/close.ts";
import { areWindowsDue, openWindows, projectsToOpen } from "../domain/leaderboards/periods/open.ts";
import {
  type BoardOf,
  deleteChunk,
  listToArchive,
  markArchived,
  type PeriodOf,
} from "../domain/leaderboards/periods/prizes.ts";
import { stepRanking, windowsToRank } from "../domain/leaderboards/periods/values.ts";
import { lookForWork, requeueDueEvents, type WaitingWork } from "../domain/progression/queue.ts";
import { prune, PRUNES } from "../domain/registries/pruning.ts";
import {
  type AfterRow,
  deleteExpired,
  deleteStrays,
  dropPartition,
  type Expired,
  findExpired,
  RETAINED,
} from "../domain/registries/retention.ts";
import { FIRST_CHANNEL, pruneChannels, type RetentionCursor } from "../domain/social/chat/settings.ts";
import {
  advanceLobby,
  areLobbiesDue,
  DUE_AT_ONCE,
  type DueLobby,
  findDueLobbies,
} from "../domain/social/lobbies/game.ts";
import { type AnyJob, EVERY_KEY, isolated, type Job } from "./job.ts";
import type { JobName } from "./queue.ts";
import { WebhookPump } from "./webhook-pump.ts";

const HOUR_MS = 3_600_000;
const ROWS_AT_ONCE = 1_000;

/** Starts games, ends grace periods, and closes lobbies when they are due. */
export const advanceLobbies: Job = {
  isDue: areLobbiesDue,
  run: async (app) => {
    let due: DueLobby[] = [];
    do {
      const last = due.at(-1);
      due = await app.transact((work) => findDueLobbies(work, last));
      for (const ref of due) {
        await isolated(app, ref, "a lobby cannot be advanced", () =>
          app.transact((work) => advanceLobby(work, ref, "skip")),
        );
        await app.limits.pause?.();
      }
      // Lobbies that another worker is processing, or that fail, are left for the next run.
    } while (due.length === DUE_AT_ONCE);
  },
};

/**
 * Key: a webhook with a due delivery. The job passes it to the pump of this process, which runs by itself: an
 * attempt may take half a minute and is not awaited.
 */
export const createDeliverWebhooks = (): Job => {
  let pump: WebhookPump | undefined;
  const pumpOf = (app: App): WebhookPump => (pump ??= new WebhookPump(app));
  return {
    concurrency: 8,
    isDue: areDeliveriesPending,
    // Deliveries planned by a relay are sent by the same process; other processes find leftovers by their
    // sweep.
    staysHere: true,
    run: async (app, key) => {
      if (key === EVERY_KEY) await pumpOf(app).sweep();
      else pumpOf(app).wake(key);
    },
    atStop: async () => {
      await pump?.stop();
      pump = undefined;
    },
  };
};

/** Fails deliveries that have waited too long for a webhook that is not being sent to. */
export const failWaitingWebhooks: Job = {
  everyMs: HOUR_MS,
  run: async (app) => {
    for (let after: string | undefined = FIRST_WEBHOOK; after !== undefined;) {
      const from: string = after;
      const held = await app.transact((work) => findUndelivered(work, from, ROWS_AT_ONCE));
      for (const one of held) {
        let failed: number;
        do {
          failed = await app.transact((work) => failLongWaiting(work, one, ROWS_AT_ONCE));
          app.metrics.webhooks.givenUp.inc(failed);
          await app.limits.pause?.();
        } while (failed === ROWS_AT_ONCE);
      }
      after = held.at(-1)?.id;
    }
  },
};

/** Processes items one after another; a failure delays no other and is retried in the next sweep. */
const each = async <T>(
  app: App,
  things: readonly T[],
  run: (thing: T) => Promise<unknown>,
): Promise<void> => {
  for (const thing of things) {
    await isolated(app, { thing }, "a leaderboard period could not go on", () => run(thing));
    await app.limits.pause?.();
  }
};

/** Only frees memory: the index of a closed list is rebuilt on demand. */
const dropIndex = async (app: App, { projectId, periodId }: PeriodOf): Promise<void> => {
  try {
    await app.ranks.drop(projectId, periodId);
  } catch (err) {
    app.log.warn({ err, projectId, periodId }, "the rank index of a closed period stays");
  }
};

/** Performs one step of archiving a board's old lists. @returns whether it may have another */
const stepArchive = async (app: App, board: BoardOf): Promise<boolean> => {
  const list = await app.transact((work) => listToArchive(work, board));
  if (!list) return false;
  if (await app.transact((work) => deleteChunk(work, list))) return true;
  await app.transact((work) => markArchived(work, list));
  await dropIndex(app, list);
  return true;
};

/** Performs one step of a list. */
const stepList = async (app: App, list: PeriodOf): Promise<ClosingStep> => {
  const done = await app.transact((work) => stepClosing(work, list));
  if (done.step === "CLOSED") await dropIndex(app, list);
  return done;
};

/**
 * Opens the windows of leaderboards as they begin, and closes those that are over: a step of each list in
 * turn, then one of archiving, so that a long one delays neither short ones nor the next windows.
 */
export const leaderboardPeriods: Job = {
  timeouts: STEP,
  isDue: (at) => sql`(${areWindowsDue(at)} or ${areListsDue(at)})`,
  run: async (app) => {
    let isMore = true;
    /** Boards that may have old lists, by id. */
    const closed = new Map<string, BoardOf>();
    while (isMore || closed.size > 0) {
      isMore = false;
      await each(app, await app.transact(projectsToOpen), (projectId) =>
        app.transact((work) => openWindows(work, projectId)),
      );
      await each(app, await app.transact(projectsToClose), (projectId) =>
        app.transact((work) => beginClosing(work, projectId)),
      );
      await each(app, await app.transact(closingLists), async (list) => {
        const done = await stepList(app, list);
        if (done.step === "MORE") isMore = true;
        if (done.step === "CLOSED") closed.set(done.leaderboardId, { ...list, ...done });
      });
      await each(app, await app.transact(windowsToRank), async (window) => {
        if ((await app.transact((work) => stepRanking(work, window))) === "MORE") isMore = true;
      });
      await each(app, [...closed].slice(0, 1), async ([id, board]) => {
        closed.delete(id);
        if (await stepArchive(app, board)) closed.set(id, board);
      });
    }
  },
};

/** Maintains a database without background processes, as often as PostgreSQL's autovacuum looks by default. */
export const maintain: Job = {
  everyMs: 60_000,
  run: (app) => app.maintain(),
};

/**
 * Writes a mark into the log that a replica follows, so that it knows how far it has come also when nothing
 * else is written: it goes by the time of the last transaction.
 */
export const markReplica: Job = {
  everyMs: 5_000,
  run: async (app) => {
    if (app.config.analyticsDatabaseUrl === undefined) return;
    await app.transact(({ db }) => sql`select pg_logical_emit_message(true, 'laurel', 'mark')`.execute(db));
  },
};

/** Orders and renews the certificates of custom domains that are due. An authority may take minutes. */
export const createOrderCertificates = (): Job => {
  const stopping = new AbortController();
  return {
    isDue: isOrderDue,
    stop: () => stopping.abort(),
    run: async ({ transact, acme, secretBox, log, domains, dns, config }) => {
      if (!acme) return;
      const { signal } = stopping;
      const caaNames = config.domains?.caaNames ?? [];
      await orderDueCertificates({ transact, acme, secretBox, log, dns, caaNames, signal });
      domains.forget();
    },
  };
};

/** Deletes messages past their retention period, and channels of lobbies that were closed long ago. */
export const pruneChat: Job = {
  timeouts: STEP,
  everyMs: HOUR_MS,
  run: async (app) => {
    let at: RetentionCursor | undefined = FIRST_CHANNEL;
    while (at) {
      const after: RetentionCursor = at;
      at = await app.transact((work) => pruneChannels(work, after));
      await app.limits.pause?.();
    }
  },
};

/** Deletes expired rows that are no longer needed. */
export const pruneEnded: Job = {
  timeouts: STEP,
  everyMs: HOUR_MS,
  run: async (app) => {
    for (const one of PRUNES) {
      let deleted: number;
      do {
        deleted = await app.transact((work) => prune(work, one, ROWS_AT_ONCE));
        await app.limits.pause?.();
      } while (deleted === ROWS_AT_ONCE);
    }
    const stopped = { limit: ROWS_AT_ONCE, isOff: !app.warehouse };
    while (await app.transact((work) => forgetStopped(work, stopped))) await app.limits.pause?.();
  },
};

/** Projects per transaction. */
const PROJECTS_AT_ONCE = 100;

type Retained = (typeof RETAINED)[number];

/** Drops and deletes what projects no longer keep of large tables. */
export const retention: Job = {
  timeouts: STEP,
  everyMs: HOUR_MS,
  run: async (app) => {
    for (const retained of RETAINED) await expire(app, retained);
  },
};

const expire = async (app: App, retained: Retained): Promise<void> => {
  const { partitions, rows, beforeId } = await app.transact((work) => findExpired(work, retained));
  for (const name of partitions) {
    if (await dropOrLeave(app, retained, name)) app.log.info({ partition: name }, "partition dropped");
  }
  if (beforeId !== undefined) await expireStrays(app, retained, beforeId);
  await expireRows(app, retained, rows);
};

/** Projects take turns: one of whom much has expired keeps nobody waiting. */
const expireRows = async (app: App, retained: Retained, rows: readonly Expired[]): Promise<void> => {
  for (let left = rows; left.length > 0;) {
    const again: Expired[] = [];
    for (let at = 0; at < left.length; at += PROJECTS_AT_ONCE) {
      const expired = left.slice(at, at + PROJECTS_AT_ONCE);
      const some = { expired, limit: ROWS_AT_ONCE };
      again.push(...(await app.transact((work) => deleteExpired(work, retained, some))));
      await app.limits.pause?.();
    }
    left = again;
  }
};

const expireStrays = async (app: App, retained: Retained, beforeId: string): Promise<void> => {
  let after: AfterRow | undefined = [];
  while (after) {
    const page: { beforeId: string; after: AfterRow; limit: number } = {
      beforeId,
      after,
      limit: ROWS_AT_ONCE,
    };
    after = await app.transact((work) => deleteStrays(work, retained, page));
    await app.limits.pause?.();
  }
};

/** Leaves a partition whose table is in use for the next run. */
const dropOrLeave = async (app: App, retained: Retained, name: string): Promise<boolean> => {
  try {
    return await app.transact((work) => dropPartition(work, retained, name));
  } catch (error) {
    if (!isLockConflict(error)) throw error;
    return false;
  }
};

const LANES = Array.from({ length: MAIL_LANES }, (_, lane) => String(lane));

/**
 * Key: a lane. Sends one mail and wakes itself for the next, so that a stopping process finishes one per
 * lane. The network is used between two transactions: a worker that dies there leaves a lease behind, and the
 * mail is sent once more when that has expired.
 */
export const sendMail: Job = {
  concurrency: MAIL_LANES,
  isDue: isMailDue,
  run: async (app, key) => {
    if (app.config.mail.mode === "off") return;
    const claim = await app.transact(claimMail);
    if (claim.kind === "none") return;
    for (const lane of key === EVERY_KEY ? LANES : [key]) app.queue.wakeHere("send-mail", lane);
    if (claim.kind === "mail") await deliver(app, claim.mail);
  },
};

const UNREADABLE: MailFailure = {
  kind: "give-up",
  error: "The mail can no longer be read",
  smtpResponse: undefined,
};

const deliver = async (app: App, mail: ClaimedMail): Promise<void> => {
  const opened = tryOpen(app, mail);
  if (!opened) return fail(app, mail, UNREADABLE);
  let sent;
  try {
    sent = await app.mailer.send(opened);
  } catch (err) {
    const failure = failureOf(err);
    logFailure(app, mail, failure, err);
    return fail(app, mail, failure);
  }
  await app.transact((work) => noteSent(work, mail, sent));
  app.metrics.mailsSent.inc();
};

const tryOpen = (app: App, mail: ClaimedMail): RenderedMail | undefined => {
  try {
    return openMail(app.secretBox, mail);
  } catch (err) {
    app.log.error({ err, mailId: mail.id }, "a mail cannot be read: is its key still in ENCRYPTION_KEYS?");
    return undefined;
  }
};

const fail = async (app: App, mail: ClaimedMail, failure: MailFailure): Promise<void> => {
  const status = await app.transact((work) => noteFailure(work, mail, failure));
  if (status === "FAILED") app.metrics.mailsFailed.inc();
};

/** Logs only classified parts of the error: its message may quote the mail. */
const logFailure = (
  { log }: App,
  { id, attempts }: ClaimedMail,
  failure: MailFailure,
  err: unknown,
): void => {
  const { code, originalCode } = err as { code?: string; originalCode?: string };
  const about = { mailId: id, attempts, kind: failure.kind, code, cause: originalCode };
  const line = { ...about, smtpResponse: failure.smtpResponse };
  if (failure.kind === "operator") log.error(line, "the mail server takes no mail from us: check SMTP_URL");
  else log.warn(line, "a mail was not sent");
};

/** Updates dynamic segments where no event of a player does: new definitions, and passing time. */
export const sweepDynamicSegments: Job = {
  timeouts: STEP,
  isDue: areSegmentsDue,
  run: async (app) => {
    while ((await app.transact(queueSegmentRefreshes)) === CHANGES_AT_ONCE) await app.limits.pause?.();
    while (await app.transact(sweepSegments)) await app.limits.pause?.();
  },
};

/**
 * Creates the job that finds work whose wake was lost (a crash, Redis unavailable), events whose retry is
 * due, and jobs that have something to do by now.
 */
export const createSweep = (jobs: Readonly<Record<string, AnyJob>>): Job => {
  const timed = (Object.entries(jobs) as [JobName, AnyJob][]).flatMap(([name, { isDue }]) =>
    isDue ? [{ name, isDue }] : [],
  );
  const look = ({ read, clock }: App): Promise<WaitingWork> => {
    const now = clock();
    return lookForWork(
      read,
      now,
      timed.map(({ isDue }) => isDue(now)),
    );
  };
  return {
    everyMs: 1_000,
    run: async (app) => {
      let found = await look(app);
      if (found.areEventsDue) {
        await app.transact(requeueDueEvents);
        found = await look(app);
      }
      // In this process, not through the queue: events are processed also while Redis is unavailable.
      for (const part of found.events) app.queue.wakeHere("process-events", String(part));
      for (const part of found.outbox) app.queue.wake("relay-outbox", String(part));
      for (const [i, { name }] of timed.entries())
        if (found.conditions[i]) app.queue.wakeHere(name, EVERY_KEY);
    },
  };
};

/** Mails tenants whose identity provider's certificates expire soon, or whose domains' are not renewed. */
export const tellOfExpiringCertificates: Job = {
  everyMs: 3_600_000,
  run: async ({ transact, mail, acme }) => {
    await transact((work) => tellOfCertificates(work, mail));
    if (acme) await transact((work) => tellOfFailingRenewals(work, mail));
  },
};
