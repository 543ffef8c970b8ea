import { sql } from "kysely";
import type { App } from "../app.ts";
import { CustomerUnknown } from "../domain/accounts/billing/buy.ts";
import { dueCustomers, markUnread, putOff } from "../domain/accounts/billing/customer.ts";
import { type SyncParts, syncTenant } from "../domain/accounts/billing/sync.ts";
import { takePlan } from "../domain/delivery/plan-change.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import type { Job } from "./job.ts";

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
    concurrency: 1,
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
  const { billing, transact, mail } = app;
  const parts: SyncParts = {
    transact,
    billing: billing!,
    mail,
    takePlan: (work, tenantId, plan) => takePlan(work, mail, tenantId, plan),
  };
  for (let failures = 0; ;) {
    const due = await transact((work) => dueCustomers(work, CHUNK));
    if (due.length === 0) return;
    for (const tenantId of due) {
      if (!(await syncOne(parts, tenantId)) && ++failures === FAILURES_MAX) return;
    }
  }
};
