import { createHash } from "node:crypto";
import { conflict, DomainError, invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { audit } from "../audit/audit.ts";
import { isRedirectUri } from "../oauth/redirects.ts";
import { type Limiter, RateLimited } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";
import { getTenant } from "../tenants/tenants.ts";
import { addCustomer, type Customer, findCustomer, noteTold } from "./customer.ts";
import type { SubscriptionStatus } from "./projection.ts";
import { type Interval, SOLD_PLANS, type SoldPlan } from "./provider.ts";
import { syncTenant, type SyncParts } from "./sync.ts";

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

export type Order = {
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
    await transact((work) => noteTold(work, known, { name, email }));
    return known;
  }
  // What the customer that is gone paid for ends before another takes its place.
  if (known) await syncTenant(parts, tenantId);
  const instead = known?.customerId;
  const customerId = await billing.createCustomer({ tenantId, name, email, instead });
  return transact(async (work) => {
    await addCustomer(work, { tenantId, customerId, ...(instead === undefined ? {} : { instead }) });
    await noteTold(work, { tenantId, customerId }, { name, email });
    return (await findCustomer(work, tenantId))!;
  });
};

export type PageLimits = { limiter: Limiter; clock: () => Date };

/**
 * Counts a page of the provider that a tenant opens: each takes requests to the provider.
 * @throws RateLimited BILLING_RATE
 */
const countPage = async ({ limiter, clock }: PageLimits, tenantId: string): Promise<void> => {
  const state = await limiter.consume(LIMITS.billing, tenantId);
  if (state.isAllowed) return;
  const message = `A tenant may open ${LIMITS.billing.points} checkouts and portals an hour`;
  throw new RateLimited("BILLING_RATE", message, state, clock().getTime());
};

/**
 * Begins the purchase of a plan; what is paid becomes known by the provider's events. Checkouts of the tenant
 * that were begun before are ended, so that only the last one can be paid.
 * @throws VALIDATION_ERROR, RateLimited, CONFLICT SUBSCRIPTION_EXISTS, UPSTREAM_ERROR STRIPE_ERROR
 */
export const beginCheckout = async (
  parts: SyncParts & PageLimits,
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
  await transact((work) =>
    audit(work, {
      action: "billing.checkout_begun",
      target: { type: "tenant", id: tenantId },
      tenantId,
      data: { plan, interval },
    }),
  );
  return { url, sessionId: id };
};

const nothingBought = (): DomainError =>
  conflict("INVALID_STATE", "The tenant has bought nothing yet: see POST /billing/checkout");

/**
 * Opens the page where a subscription is changed, paid and cancelled.
 * @throws CONFLICT INVALID_STATE, RateLimited
 */
export const openPortal = async (
  { transact, billing, ...limits }: Pick<SyncParts, "transact" | "billing"> & PageLimits,
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

const textOf = (time: Date | null | undefined): string | null => time?.toISOString() ?? null;

/** Returns the plan of a tenant with the subscription behind it. */
export const showSubscription = async (work: Work, tenantId: string) => {
  const { plan, updatedAt } = await getTenant(work, tenantId);
  const customer: Partial<Customer> = (await findCustomer(work, tenantId)) ?? {};
  const { status = "NONE", interval = null, cancelAtPeriodEnd = false } = customer;
  return {
    plan,
    status,
    subscribedPlan: SOLD_PLANS.find((sold) => sold === customer.plan) ?? null,
    interval,
    currentPeriodStart: textOf(customer.periodStart),
    currentPeriodEnd: textOf(customer.periodEnd),
    cancelAtPeriodEnd,
    trialEnd: textOf(customer.trialEnd),
    graceEnd: textOf(customer.graceEnd),
    updatedAt: (customer.updatedAt ?? updatedAt).toISOString(),
  };
};

/** Identifies what a customer is created with: the same call twice creates one. */
export const keyOf = (parts: Record<string, string>): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("base64url");

const FAILED = "The payment provider did not answer as expected; try again";

/** Builds the error of a provider that refused or did not answer. */
export const providerFailed = (): DomainError =>
  new DomainError("UPSTREAM_ERROR", FAILED, { reason: "STRIPE_ERROR" });

/** The provider works, and does not know a customer: it is of another account, or of another mode. */
export class CustomerUnknown extends DomainError {
  constructor() {
    super("UPSTREAM_ERROR", FAILED, { reason: "STRIPE_ERROR" });
  }
}
