import { sql } from "kysely";
import type { App } from "../app.ts";
import { CustomerUnknown, type SyncParts, syncTenant } from "../domain/accounts/billing/buy.ts";
import { dueCustomers, markUnread, putOff } from "../domain/accounts/billing/customer.ts";
import {
  areReportsDue,
  type DueCursor,
  findDueReport,
  findUntold,
  queueDueReport,
  type RunOf,
  tellOfRun,
} from "../domain/analytics/reports/runs.ts";
import { relayBacklog } from "../domain/delivery/outbox/relay-backlog.ts";
import { type Backlog, Backlogs, RelaySchedule } from "../domain/delivery/outbox/relay-schedule.ts";
import { relayPartitions } from "../domain/delivery/outbox/relay.ts";
import { takePlan } from "../domain/delivery/plan-change.ts";
import { starvedMs, threadCpuMs } from "../domain/kernel/timeouts.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import type { Work } from "../domain/kernel/work.ts";
import { byProject, type Due, DUE_PAGE, findDue, type PlayersOf } from "../domain/progression/moved-ends.ts";
import { areSchedulesDue, type ScheduleCursor, stepSchedules } from "../domain/rules/schedules.ts";
import { isolated, type Job, type JobTogether } from "./job.ts";

type Sweep = {
  due: Parameters<typeof findDue>[1];
  /** Processes a page's due players of one project in one transaction. */
  settle(work: Work, players: PlayersOf): Promise<void>;
};

/**
 * Goes once through all due players, in pages. A player who cannot be changed does not delay the others, nor
 * does one whose computation takes so long that PostgreSQL ends the transaction; skipped players are found by
 * the next run.
 */
export const sweepDue = async (app: App, sweep: Sweep): Promise<void> => {
  const { due } = sweep;
  let after: Due | undefined;
  for (;;) {
    const page: Due[] = await app.transact((work) => findDue(work, due, after));
    for (const [projectId, playerIds] of byProject(page)) {
      await settleTogether(app, sweep, { projectId, playerIds });
      await app.limits.pause?.();
    }
    if (page.length < DUE_PAGE) return;
    after = page.at(-1);
  }
};

const settleTogether = async (app: App, sweep: Sweep, players: PlayersOf): Promise<void> => {
  const { projectId, playerIds } = players;
  const sinceMs = threadCpuMs();
  try {
    await app.transact((work) => sweep.settle(work, players));
  } catch (err) {
    if (starvedMs(sinceMs) === undefined) throwOutage(err);
    if (playerIds.length === 1) {
      const what = { err, projectId, playerId: playerIds[0], table: sweep.due.table };
      app.log.error(what, "what is due could not be settled");
      return;
    }
    for (const playerId of playerIds) await settleTogether(app, sweep, { projectId, playerIds: [playerId] });
  }
};

/** What both jobs of a process share. */
type Relay = { schedule: RelaySchedule; backlogs: Backlogs };

/** Creates the jobs that publish committed rows: those of all projects together, and those of backlogs. */
export const createRelayJobs = () => {
  const relay = { schedule: new RelaySchedule(), backlogs: new Backlogs() };
  return { "relay-outbox": createRelayOutbox(relay), "relay-backlogs": createRelayBacklogs(relay) };
};

/** Key: a partition of the outbox. Publishes committed rows until none is left but those of backlogs. */
const createRelayOutbox = (relay: Relay): JobTogether => ({
  concurrency: 4,
  staysHere: true,
  runTogether: async (app, keys, { done, leave }) => {
    const onRelayed = (parts: readonly number[], more: readonly number[]): void => {
      leave(more.map(String));
      done(parts.map(String));
    };
    const relayed = await relayPartitions({ ...app, ...relay, onRelayed }, keys.map(Number));
    const { rows, again, backlogs } = relayed;
    for (const backlog of backlogs) app.queue.wakeHere("relay-backlogs", keyOf(backlog));
    app.metrics.outboxRelayed.inc(rows);
    if (rows > 0) await app.limits.pause?.();
    // Rows committed since then wake the job again.
    return again.map(String);
  },
});

const keyOf = ({ part, projectId }: Backlog): string => `${part}:${projectId}`;

const backlogOf = (key: string): Backlog => {
  const [part, projectId] = key.split(":");
  return { part: Number(part), projectId: projectId! };
};

/**
 * Key: a backlog. Makes one round of it; backlogs take turns, and shared rounds of the other projects go on
 * beside them.
 */
const createRelayBacklogs = (relay: Relay): Job => ({
  concurrency: 2,
  staysHere: true,
  run: async (app, key) => {
    const backlog = backlogOf(key);
    try {
      const { rows, restMs } = await relayBacklog({ ...app, ...relay }, backlog);
      app.metrics.outboxRelayed.inc(rows);
      if (restMs > 0) wakeLater(app, key, restMs);
      if (rows > 0) await app.limits.pause?.();
      if (restMs === 0 && relay.backlogs.has(backlog)) app.queue.wakeHere("relay-backlogs", key);
    } finally {
      // Its rows belong to the shared rounds again, which have left out those that were committed meanwhile.
      if (!relay.backlogs.has(backlog)) app.queue.wakeHere("relay-outbox", String(backlog.part));
    }
  },
});

const wakeLater = (app: App, key: string, afterMs: number): void => {
  setTimeout(() => app.queue.wakeHere("relay-backlogs", key), afterMs).unref();
};

/** Does something to each of a walk. One that fails holds nobody up: it is tried again by the next run. */
const doEach = async <T extends { id: string }>(
  app: App,
  find: (after: T | undefined) => Promise<T | undefined>,
  act: (one: T) => Promise<void>,
): Promise<void> => {
  for (let one = await find(undefined); one; one = await find(one)) {
    const of = one;
    await isolated(app, { of }, "a report of analytics failed", () => act(of));
    await app.limits.pause?.();
  }
};

/**
 * Queues the runs of reports that are due, and tells of those that have ended. The reports themselves are
 * computed as long-running jobs of their projects.
 */
export const runReports: Job = {
  isDue: areReportsDue,
  run: async (app) => {
    const { transact, mail, config } = app;
    await doEach<DueCursor>(
      app,
      (after) => transact((work) => findDueReport(work, after)),
      (due) => transact((work) => queueDueReport(work, due)),
    );
    const parts = { mail, publicUrl: config.publicUrl };
    await doEach<RunOf>(
      app,
      (after) => transact((work) => findUntold(work, after)),
      (run) => transact((work) => tellOfRun(work, run, parts)),
    );
  },
};

/**
 * Runs scheduled rules for their players, a page of each due schedule in turn, so that a project with many
 * players does not delay another.
 */
export const runSchedules: Job = {
  isDue: areSchedulesDue,
  run: async (app) => {
    let isMore = true;
    while (isMore) {
      isMore = false;
      let cursor: ScheduleCursor | undefined;
      for (;;) {
        const at = cursor;
        const step = await app.transact((work) => stepSchedules(work, at));
        if (!step) break;
        cursor = step.cursor;
        isMore ||= !step.isFull;
        await app.limits.pause?.();
      }
    }
  },
};

/** How often the provider is asked what has happened, in ms, and how far back: events can get lost. */
const RECONCILED_EVERY_MS = 3_600_000;
const LOOK_BACK_MS = 48 * 3_600_000;
/** Customers read in one go. */
const CHUNK = 50;
/** Customers over which the provider fails before the run ends: then it is not the customers. */
const FAILURES_MAX = 2;

/**
 * Reads customers of the payment provider that events have told of, or whose time of grace is over; and
 * hourly asks which customers anything has happened to, for events that never came.
 */
export const createSyncBilling = (): Job => {
  let reconciledMs = -Infinity;
  return {
    everyMs: RECONCILED_EVERY_MS,
    isDue: (at) =>
      sql`exists (select from billing_customers where due_at <= ${at.toISOString()}::timestamptz)`,
    run: async (app) => {
      if (!app.billing) return;
      if (performance.now() - reconciledMs >= RECONCILED_EVERY_MS - 60_000) {
        reconciledMs = performance.now();
        await reconcileBilling(app);
      }
      await syncDue(app);
    },
  };
};

/** Has those customers read that something has happened to since they were read. */
export const reconcileBilling = async ({ billing, transact, clock, log }: App): Promise<void> => {
  try {
    const changed = await billing!.changedSince(clock().getTime() - LOOK_BACK_MS);
    await transact((work) => markUnread(work, changed));
  } catch (error) {
    if (!isProviders(error)) throw error;
    log.warn("billing was not reconciled");
  }
};

/** Whether the provider has failed, which was logged: the customer is read again in a minute. */
const isProviders = (error: unknown): boolean =>
  error instanceof DomainError && error.code === "UPSTREAM_ERROR";

/** Reads a customer. @returns false if the provider fails */
const syncOne = async (parts: SyncParts, tenantId: string): Promise<boolean> => {
  try {
    await syncTenant(parts, tenantId);
  } catch (error) {
    if (error instanceof CustomerUnknown) await parts.transact((work) => putOff(work, tenantId));
    else if (isProviders(error)) return false;
    else if (!(error instanceof DomainError && error.code === "NOT_FOUND")) throw error;
  }
  return true;
};

const syncDue = async (app: App): Promise<void> => {
  const { transact } = app;
  const parts: SyncParts = { ...app, billing: app.billing!, takePlan };
  for (let failures = 0; ;) {
    const due = await transact((work) => dueCustomers(work, CHUNK));
    if (due.length === 0) return;
    for (const tenantId of due) {
      if (!(await syncOne(parts, tenantId)) && ++failures === FAILURES_MAX) return;
    }
  }
};
