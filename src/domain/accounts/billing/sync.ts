import type { Plan } from "../../kernel/plans.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import type { Mail } from "../email/mail.ts";
import { audit } from "../audit/audit.ts";
import { lockTenant } from "../tenants/lock-tenant.ts";
import { Tenant } from "../tenants/tenant.ts";
import { notifyAdmins, notifyOwners } from "../tenants/notify-owners.ts";
import {
  beginReading,
  type Customer,
  findCustomer,
  noteEndings,
  noteTold,
  type Reading,
  storeReading,
  takeEndings,
} from "./customer.ts";
import { GONE, hasEnded, NOTHING, oursOf, type Projection, project, surplusOf } from "./projection.ts";
import type { BillingProvider, ProviderSubscription } from "./provider.ts";

export type SyncParts = {
  transact: Transact;
  billing: BillingProvider;
  mail: Mail;
  /** Gives the tenant the plan, with all that follows from it. */
  takePlan: (work: Work, tenantId: string, plan: Plan) => Promise<void>;
};

const isSold = (priceId: string, { prices }: BillingProvider): boolean =>
  prices.some((price) => price.priceId === priceId);

/**
 * Reads what a customer has, and ends what it pays for twice, which is noted before.
 * @returns undefined for a customer that was deleted at the provider
 */
const readSubscriptions = async (
  { transact, billing }: SyncParts,
  { customerId, tenantId }: Reading,
): Promise<readonly ProviderSubscription[] | undefined> => {
  const read = async () => {
    const all = await billing.subscriptionsOf(customerId);
    return all && oursOf(all, billing.prices);
  };
  const subscriptions = await read();
  if (!subscriptions) return undefined;
  const surplus = surplusOf(subscriptions).filter(({ priceId }) => isSold(priceId, billing));
  if (surplus.length === 0) return subscriptions;
  const ids = surplus.map(({ id }) => id);
  await transact((work) => noteEndings(work, tenantId, ids));
  for (const id of ids) await billing.endSubscription(id);
  return read();
};

/**
 * Reads the subscriptions of a tenant anew and gives it the plan that they entitle it to. Events, returning
 * browsers and the clock are nothing but reasons to do this: it may run at any time, any number of times and
 * several at once; the reading that began last counts. A tenant that a super-admin has put on ENTERPRISE
 * keeps it, and one that was deleted goes on paying for nothing.
 */
export const syncTenant = async (parts: SyncParts, tenantId: string): Promise<void> => {
  const { transact } = parts;
  const reading = await transact((work) => beginReading(work, tenantId));
  if (!reading) return;
  if (await transact((work) => isDeleted(work, tenantId))) {
    await endAll(parts, reading);
    return;
  }
  const subscriptions = await readSubscriptions(parts, reading);
  const newName = await transact((work) => apply(work, parts, { reading, subscriptions }));
  if (newName !== undefined && subscriptions) await tellName(parts, reading, newName);
};

/** Tells the provider the tenant's new name. */
const tellName = async ({ transact, billing }: SyncParts, reading: Reading, name: string): Promise<void> => {
  if (await billing.updateCustomer(reading.customerId, { name }))
    await transact((work) => noteTold(work, reading, { name }));
};

const isDeleted = async ({ em }: Work, tenantId: string): Promise<boolean> =>
  (await em.count(Tenant, { id: tenantId, deletedAt: null })) === 0;

/** Ends what a tenant pays here for that is gone: nobody could any more. */
const endAll = async ({ transact, billing }: SyncParts, reading: Reading): Promise<void> => {
  await billing.expireCheckouts(reading.customerId);
  const all = (await billing.subscriptionsOf(reading.customerId)) ?? [];
  const running = all.filter((one) => !hasEnded(one) && isSold(one.priceId, billing));
  for (const { id } of running) await billing.endSubscription(id);
  const { tenantId } = reading;
  const data = { subscriptions: running.map(({ id }) => id) };
  await transact(async (work) => {
    await storeReading(work, reading, NOTHING);
    if (running.length === 0) return;
    const target = { type: "tenant", id: tenantId };
    await audit(work, { action: "billing.ended_with_tenant", target, tenantId, data });
  });
};

/** `subscriptions` is undefined for a customer that is gone. */
type Read = { reading: Reading; subscriptions: readonly ProviderSubscription[] | undefined };

/** Applies what was read. @returns the tenant's name, if the provider does not know it */
const apply = async (
  work: Work,
  parts: SyncParts,
  { reading, subscriptions }: Read,
): Promise<string | undefined> => {
  const { tenantId } = reading;
  const tenant = await lockTenant(work, tenantId);
  const before = await findCustomer(work, tenantId);
  const now = subscriptions ? projected(work, parts, { subscriptions, before }) : GONE;
  const newName = tenant.name === before?.told.name ? undefined : tenant.name;
  const endedIds = (subscriptions ?? []).filter(hasEnded).map(({ id }) => id);
  const ended = await takeEndings(work, tenantId, endedIds);
  if (ended.length > 0) await tellEnded(work, parts.mail, tenantId, ended);
  if (!(await storeReading(work, reading, now))) return newName;
  await noteChange(work, parts.mail, { tenantId, before, now });
  const entitled = entitledTo(now, before);
  // A super-admin's ENTERPRISE is not Stripe's to take.
  if (entitled !== null && entitled !== tenant.plan && tenant.plan !== "ENTERPRISE")
    await parts.takePlan(work, tenantId, entitled);
  return newName;
};

const projected = (
  { serverNow: now }: Work,
  { billing }: SyncParts,
  { subscriptions, before }: { subscriptions: readonly ProviderSubscription[]; before: Customer | undefined },
): Projection =>
  project(subscriptions, billing.prices, {
    now,
    before: {
      pastDueSinceMs: before?.pastDueSince?.getTime() ?? null,
      periodStartMs: before?.periodStart?.getTime() ?? null,
    },
  });

/** Statuses of a customer that has not paid yet. */
const UNPAID_YET: ReadonlySet<string> = new Set(["NONE", "INCOMPLETE"]);

/** Returns null where the plan stays as it is: a customer that has never paid keeps what it was given. */
const entitledTo = ({ status, entitled }: Projection, before: Customer | undefined): Plan | null => {
  const isUnpaid = UNPAID_YET.has(status) || status === "CANCELED";
  const isUnused = status === "NONE" || (isUnpaid && UNPAID_YET.has(before?.status ?? "NONE"));
  return isUnused ? null : entitled;
};

type Changed = { tenantId: string; before: Customer | undefined; now: Projection };

const noteChange = async (work: Work, mail: Mail, { tenantId, before, now }: Changed): Promise<void> => {
  const { status, plan, interval } = now;
  if (before?.status === status && before.plan === plan && before.interval === interval) return;
  await audit(work, {
    action: "billing.subscription_changed",
    target: { type: "tenant", id: tenantId },
    tenantId,
    data: { status, plan, interval },
  });
  if (status === "PAST_DUE" && before?.status !== status) await tellUnpaid(work, mail, tenantId, now);
};

const tellEnded = async (work: Work, mail: Mail, tenantId: string, ids: readonly string[]): Promise<void> => {
  const target = { type: "tenant", id: tenantId };
  await audit(work, { action: "billing.duplicate_ended", target, tenantId, data: { subscriptions: ids } });
  const values = { subscriptions: ids.join(", ") };
  await notifyOwners(mail, work, tenantId, { template: "subscription-duplicate", values });
};

const tellUnpaid = (
  work: Work,
  mail: Mail,
  tenantId: string,
  { plan, graceEndMs }: Projection,
): Promise<void> => {
  const values = { plan: plan ?? "", keptUntil: new Date(graceEndMs ?? 0).toISOString() };
  return notifyAdmins(mail, work, tenantId, { template: "payment-failed", values });
};
