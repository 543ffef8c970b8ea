import { createHash } from "node:crypto";
import { audit, ofTenant } from "../audit/audit.ts";
import {
  addCustomer,
  beginReading,
  type Customer,
  findCustomer,
  noteEndings,
  noteTold,
  type Reading,
  storeReading,
  takeEndings,
} from "./customer.ts";
import {
  type BillingProvider,
  GONE,
  hasEnded,
  type Interval,
  NOTHING,
  oursOf,
  project,
  type Projection,
  type ProviderSubscription,
  SOLD_PLANS,
  type SoldPlan,
  type SubscriptionStatus,
  surplusOf,
} from "./provider.ts";
import type { Mail } from "../email/mail.ts";
import { isRedirectUri } from "../oauth/provider.ts";
import { type CountingParts, countUse, LIMITS } from "../rate-limits/limiter.ts";
import { notifyAdmins, notifyOwners } from "../tenants/notify-owners.ts";
import { getTenant, lockTenant, Tenant } from "../tenants/tenant.ts";
import type { Plan } from "../../kernel/caller.ts";
import { conflict, DomainError, invalid } from "../../kernel/errors.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { shown } from "../../kernel/json.ts";
import type { Transact, Work } from "../../kernel/work.ts";

export type SyncParts = {
  transact: Transact;
  billing: BillingProvider;
  mail: Mail;
  /** Gives the tenant the plan, with all that follows from it. */
  takePlan: (work: Work, mail: Mail, tenantId: string, plan: Plan) => Promise<void>;
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
  if (newName === undefined || !subscriptions) return;
  if (await parts.billing.updateCustomer(reading.customerId, { name: newName }))
    await transact((work) => noteTold(work, reading, newName));
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
    await audit(work, { ...ofTenant(tenantId), action: "billing.ended_with_tenant", data });
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
  const at = { now: work.serverNow, before };
  const now = subscriptions ? project(subscriptions, parts.billing.prices, at) : GONE;
  const newName = tenant.name === before?.toldName ? undefined : tenant.name;
  const endedIds = (subscriptions ?? []).filter(hasEnded).map(({ id }) => id);
  const ended = await takeEndings(work, tenantId, endedIds);
  if (ended.length > 0) await tellEnded(work, parts.mail, tenantId, ended);
  if (!(await storeReading(work, reading, now))) return newName;
  await noteChange(work, parts.mail, { tenantId, before, now });
  const entitled = entitledTo(now, before);
  // A super-admin's ENTERPRISE is not Stripe's to take.
  if (entitled !== null && entitled !== tenant.plan && tenant.plan !== "ENTERPRISE")
    await parts.takePlan(work, parts.mail, tenantId, entitled);
  return newName;
};

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
  const data = { status, plan, interval };
  await audit(work, { ...ofTenant(tenantId), action: "billing.subscription_changed", data });
  if (status !== "PAST_DUE" || before?.status === status) return;
  const values = { plan: plan ?? "", keptUntil: isoOf(now.graceEnd) ?? "" };
  await notifyAdmins(mail, work, tenantId, { template: "payment-failed", values });
};

const tellEnded = async (work: Work, mail: Mail, tenantId: string, ids: readonly string[]): Promise<void> => {
  const data = { subscriptions: ids };
  await audit(work, { ...ofTenant(tenantId), action: "billing.duplicate_ended", data });
  const values = { subscriptions: ids.join(", ") };
  await notifyOwners(mail, work, tenantId, { template: "subscription-duplicate", values });
};

/** Where browsers may be sent back to: pages of the origins. */
export type ReturnRules = { origins: ReadonlySet<string>; isProduction: boolean };

/** @throws VALIDATION_ERROR REDIRECT_URI_NOT_ALLOWED */
const requireReturn = (field: string, url: string, { origins, isProduction }: ReturnRules): void => {
  // Stripe fills {CHECKOUT_SESSION_ID} in, which browsers would encode.
  const plain = url.replaceAll("{CHECKOUT_SESSION_ID}", "id");
  if (isRedirectUri(plain, isProduction) && origins.has(new URL(plain).origin)) return;
  throw invalid(
    field,
    "must be a page of CONSOLE_URL or of one of OAUTH_REDIRECT_URIS",
    "REDIRECT_URI_NOT_ALLOWED",
  );
};

/** Statuses with a subscription that is changed and paid in the portal, and not bought again. */
const HELD: ReadonlySet<SubscriptionStatus> = new Set(["TRIALING", "ACTIVE", "PAST_DUE", "UNPAID", "PAUSED"]);

type Order = {
  tenantId: string;
  email: string;
  plan: SoldPlan;
  interval: Interval;
  successUrl: string;
  cancelUrl: string;
};

const customerOf = async (parts: SyncParts, { tenantId, email }: Order): Promise<Customer> => {
  const { transact, billing } = parts;
  const { tenant, known } = await transact(async (work) => ({
    tenant: await getTenant(work, tenantId),
    known: await findCustomer(work, tenantId),
  }));
  const { name } = tenant;
  // The one who buys is written to.
  if (known && (await billing.updateCustomer(known.customerId, { name, email }))) {
    await transact((work) => noteTold(work, known, name));
    return known;
  }
  // What the customer that is gone paid for ends before another takes its place.
  if (known) await syncTenant(parts, tenantId);
  const instead = known?.customerId;
  const customerId = await billing.createCustomer({ tenantId, name, email, instead });
  return transact(async (work) => {
    await addCustomer(work, { tenantId, customerId, instead });
    await noteTold(work, { tenantId, customerId }, name);
    return (await findCustomer(work, tenantId))!;
  });
};

/** Counts a page of the provider that a tenant opens: each takes requests to the provider. */
const countPage = (parts: CountingParts, tenantId: string): Promise<void> => {
  const message = `A tenant may open ${LIMITS.billing.points} checkouts and portals an hour`;
  return countUse(parts, { bucket: LIMITS.billing, key: tenantId }, "BILLING_RATE", message);
};

/**
 * Begins the purchase of a plan; what is paid becomes known by the provider's events. Checkouts of the tenant
 * that were begun before are ended, so that only the last one can be paid.
 * @throws VALIDATION_ERROR, RateLimited, CONFLICT SUBSCRIPTION_EXISTS, UPSTREAM_ERROR STRIPE_ERROR
 */
export const beginCheckout = async (
  parts: SyncParts & CountingParts,
  order: Order,
  rules: ReturnRules,
): Promise<{ url: string; sessionId: string }> => {
  const { transact, billing } = parts;
  const { tenantId, plan, interval, successUrl, cancelUrl } = order;
  requireReturn("successUrl", successUrl, rules);
  requireReturn("cancelUrl", cancelUrl, rules);
  const price = billing.prices.find((one) => one.plan === plan && one.interval === interval);
  if (!price) throw invalid("interval", `${plan} is not sold ${interval} on this server`);
  await countPage(parts, tenantId);
  const { customerId } = await customerOf(parts, order);
  await syncTenant(parts, tenantId);
  const current = await transact((work) => findCustomer(work, tenantId));
  if (current && HELD.has(current.status))
    throw conflict(
      "SUBSCRIPTION_EXISTS",
      "The tenant has a subscription: change or pay it by POST /billing/portal",
    );
  if ((await transact((work) => getTenant(work, tenantId))).plan === "ENTERPRISE")
    throw conflict(
      "SUBSCRIPTION_EXISTS",
      "The tenant is on ENTERPRISE, which is more than what is sold here",
    );
  await billing.expireCheckouts(customerId);
  const { id, url } = await billing.createCheckout({
    customerId,
    priceId: price.priceId,
    successUrl,
    cancelUrl,
  });
  const data = { plan, interval };
  await transact((work) => audit(work, { ...ofTenant(tenantId), action: "billing.checkout_begun", data }));
  return { url, sessionId: id };
};

const nothingBought = (): DomainError =>
  conflict("INVALID_STATE", "The tenant has bought nothing yet: see POST /billing/checkout");

/**
 * Opens the page where a subscription is changed, paid and cancelled.
 * @throws CONFLICT INVALID_STATE, RateLimited
 */
export const openPortal = async (
  { transact, billing, ...limits }: Pick<SyncParts, "transact" | "billing"> & CountingParts,
  { tenantId, returnUrl }: { tenantId: string; returnUrl: string },
  rules: ReturnRules,
): Promise<{ url: string }> => {
  requireReturn("returnUrl", returnUrl, rules);
  const customer = await transact((work) => findCustomer(work, tenantId));
  if (!customer) throw nothingBought();
  await countPage(limits, tenantId);
  const portal = await billing.createPortal({ customerId: customer.customerId, returnUrl });
  if (!portal) throw nothingBought();
  return portal;
};

/** Returns the plan of a tenant with the subscription behind it. */
export const showSubscription = async (work: Work, tenantId: string) => {
  const { plan, updatedAt } = await getTenant(work, tenantId);
  const bought = (await findCustomer(work, tenantId)) ?? { ...NOTHING, updatedAt };
  return {
    plan,
    ...shown(bought, ["status", "interval", "cancelAtPeriodEnd", "trialEnd", "graceEnd", "updatedAt"]),
    subscribedPlan: SOLD_PLANS.find((sold) => sold === bought.plan) ?? null,
    currentPeriodStart: isoOf(bought.periodStart),
    currentPeriodEnd: isoOf(bought.periodEnd),
  };
};

/** Identifies what a customer is created with: the same call twice creates one. */
export const keyOf = (parts: Record<string, string>): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("base64url");

/** The provider refused or did not answer. */
export class ProviderFailed extends DomainError {
  constructor() {
    const message = "The payment provider did not answer as expected; try again";
    super("UPSTREAM_ERROR", message, { reason: "STRIPE_ERROR" });
  }
}

/** The provider works, and does not know a customer: it is of another account, or of another mode. */
export class CustomerUnknown extends ProviderFailed {}
