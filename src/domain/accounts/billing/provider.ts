import { z } from "zod";
import type { Plan } from "../../kernel/caller.ts";
import { DomainError } from "../../kernel/errors.ts";

export const INTERVALS = ["monthly", "yearly"] as const;
export type Interval = (typeof INTERVALS)[number];
/** Plans that are bought; FREE is what remains without, and ENTERPRISE is set by a super-admin. */
export const SOLD_PLANS = ["STARTER", "PRO"] as const satisfies readonly Plan[];
export type SoldPlan = (typeof SOLD_PLANS)[number];

/** A price at the payment provider. Of several for one plan and interval the first is sold. */
export type PriceOf = { plan: SoldPlan; interval: Interval; priceId: string };

export const SUBSCRIPTION_STATUSES = [
  "NONE",
  "INCOMPLETE",
  "TRIALING",
  "ACTIVE",
  "PAST_DUE",
  "UNPAID",
  "PAUSED",
  "CANCELED",
] as const;
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATUSES)[number];

/** All statuses of a subscription at Stripe, and what they are here. */
const STATUS_OF = {
  incomplete: "INCOMPLETE",
  incomplete_expired: "CANCELED",
  trialing: "TRIALING",
  active: "ACTIVE",
  past_due: "PAST_DUE",
  canceled: "CANCELED",
  unpaid: "UNPAID",
  paused: "PAUSED",
} as const satisfies Record<string, SubscriptionStatus>;
type ProviderStatus = keyof typeof STATUS_OF;

/** A subscription as the payment provider has it now. */
export type ProviderSubscription = {
  id: string;
  status: ProviderStatus;
  priceId: string;
  createdAt: Date;
  /** Of the item that is paid. */
  periodStart: Date;
  periodEnd: Date;
  cancelAtPeriodEnd: boolean;
  trialEnd: Date | null;
  /** Payments are not collected for a while. */
  isCollectionPaused: boolean;
};

/** An invoice as it is shown; times are ISO 8601. */
export const Invoice = z
  .object({
    id: z.string(),
    number: z.string().nullable(),
    status: z.string().meta({ description: "draft, open, paid, uncollectible or void" }),
    currency: z.string(),
    total: z.int().meta({ description: "In the currency's smallest unit, such as cents" }),
    amountDue: z.int(),
    amountPaid: z.int(),
    periodStart: z.iso.datetime(),
    periodEnd: z.iso.datetime(),
    hostedUrl: z.string().nullable(),
    pdfUrl: z.string().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "BillingInvoice" });
export type Invoice = z.output<typeof Invoice>;

type Checkout = { customerId: string; priceId: string; successUrl: string; cancelUrl: string };

/** What speaks to the payment provider. Each method throws UPSTREAM_ERROR STRIPE_ERROR when it cannot. */
export type BillingProvider = {
  /** Every price that is known, those that are sold first. */
  prices: readonly PriceOf[];
  /** Returns what the sold prices cost; kept for some minutes. */
  costs(): Promise<ReadonlyMap<string, { currency: string; unitAmount: number }>>;
  /** Creates a customer, or returns the one created by the same call before. */
  createCustomer(of: {
    tenantId: string;
    name: string;
    email: string;
    /** The customer that is gone. */
    instead?: string | undefined;
  }): Promise<string>;
  /** Tells who a customer is; absent fields stay. @returns whether it is there: people can delete it */
  updateCustomer(customerId: string, of: { name?: string; email?: string }): Promise<boolean>;
  createCheckout(checkout: Checkout): Promise<{ id: string; url: string }>;
  /** Ends checkouts of the customer that are open, so that only one can be paid. */
  expireCheckouts(customerId: string): Promise<void>;
  /** Undefined: the customer is gone. */
  createPortal(of: { customerId: string; returnUrl: string }): Promise<{ url: string } | undefined>;
  /** Returns the subscriptions of a customer, ended ones included; undefined: the customer is gone. */
  subscriptionsOf(customerId: string): Promise<ProviderSubscription[] | undefined>;
  /** Ends a subscription at once; the unused time is credited. Does nothing when it has ended. */
  endSubscription(id: string): Promise<void>;
  /** Returns a page of invoices, newest first; `after`: the id of the last one before. */
  invoicesOf(of: { customerId: string; limit: number; after?: string | undefined }): Promise<{
    invoices: Invoice[];
    hasMore: boolean;
  }>;
  /** Returns the customers that something has happened to since then, with the time of the last event. */
  changedSince(sinceMs: number): Promise<ReadonlyMap<string, number>>;
  /**
   * Returns the customer that a signed event is about; undefined for an event about none.
   * @throws VALIDATION_ERROR SIGNATURE_INVALID also for a signature older or newer than five minutes
   */
  customerOf(bytes: Uint8Array, signature: string): Promise<string | undefined>;
};

/** Builds the error of servers without a payment provider. */
export const billingIsOff = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "This server sells no plans; ask its operator", {
    reason: "BILLING_NOT_CONFIGURED",
  });

/** Days for which a plan is kept while a payment fails. */
const GRACE_DAYS = 7;
const DAY_MS = 86_400_000;

/** What a tenant has bought, and the plan that this entitles it to. */
export type Projection = {
  status: SubscriptionStatus;
  subscriptionId: string | null;
  /** The plan that the subscription is for; null without one, or for a price that is not known here. */
  plan: Plan | null;
  interval: Interval | null;
  periodStart: Date | null;
  periodEnd: Date | null;
  cancelAtPeriodEnd: boolean;
  trialEnd: Date | null;
  /** While a payment fails: until when the plan is kept. */
  graceEnd: Date | null;
  /** Since when payments fail; kept until the subscription is active again. */
  pastDueSince: Date | null;
  /** null: not known, so the tenant's plan is left as it is. */
  entitled: Plan | null;
};

/** What a customer without subscriptions has. */
export const NOTHING: Projection = {
  status: "NONE",
  subscriptionId: null,
  plan: null,
  interval: null,
  periodStart: null,
  periodEnd: null,
  cancelAtPeriodEnd: false,
  trialEnd: null,
  graceEnd: null,
  pastDueSince: null,
  entitled: "FREE",
};

/** What a customer has that was deleted at the provider, and all its subscriptions with it. */
export const GONE: Projection = { ...NOTHING, status: "CANCELED" };

/** The time, and what was read of the customer before. */
type At = { now: Date; before: Pick<Projection, "pastDueSince" | "periodStart"> | undefined };

/** Statuses that are paid for, or will be. */
const RUNNING: ReadonlySet<ProviderStatus> = new Set(["trialing", "active", "past_due"]);
/** Statuses that entitle to the plan, whatever the time. */
const ENTITLED: ReadonlySet<SubscriptionStatus> = new Set(["TRIALING", "ACTIVE"]);
/** Statuses that have ended for good. */
const ENDED: ReadonlySet<ProviderStatus> = new Set(["canceled", "incomplete_expired"]);

/** Whether a subscription has ended for good. */
export const hasEnded = ({ status }: ProviderSubscription): boolean => ENDED.has(status);

/**
 * Returns the subscriptions for plans that are sold here: the operator may sell a customer something else.
 * All of them where there is none, as after a price was taken out of the settings.
 */
export const oursOf = (
  subscriptions: readonly ProviderSubscription[],
  prices: readonly PriceOf[],
): readonly ProviderSubscription[] => {
  const known = new Set(prices.map(({ priceId }) => priceId));
  const ours = subscriptions.filter(({ priceId }) => known.has(priceId));
  return ours.length > 0 ? ours : subscriptions;
};

const rankOf = ({ status }: ProviderSubscription): number => {
  if (RUNNING.has(status)) return 2;
  return ENDED.has(status) ? 0 : 1;
};

const byPrecedence = (a: ProviderSubscription, b: ProviderSubscription): number =>
  rankOf(b) - rankOf(a) || b.createdAt.getTime() - a.createdAt.getTime() || (a.id < b.id ? 1 : -1);

/**
 * Returns the subscriptions that are paid for besides the newest: two checkouts that were open at once can
 * both be paid.
 */
export const surplusOf = (subscriptions: readonly ProviderSubscription[]): ProviderSubscription[] =>
  subscriptions
    .filter(({ status }) => RUNNING.has(status))
    .toSorted(byPrecedence)
    .slice(1);

const statusOf = ({ status, isCollectionPaused }: ProviderSubscription): SubscriptionStatus =>
  isCollectionPaused && RUNNING.has(status) ? "PAUSED" : STATUS_OF[status];

/**
 * Returns what the subscriptions of a customer amount to: a pure function of them, the time and
 * since when payments fail, so that it does not matter which events told of them, how often, and in which
 * order. The newest that is paid for counts; else the newest that may be; else the newest that has ended.
 */
export const project = (
  subscriptions: readonly ProviderSubscription[],
  prices: readonly PriceOf[],
  at: At,
): Projection => {
  const [first] = subscriptions.toSorted(byPrecedence);
  return first
    ? ofSubscription(first, prices, at)
    : { ...NOTHING, pastDueSince: at.before?.pastDueSince ?? null };
};

/**
 * Returns since when payments fail. A renewal that is not paid has begun a new period already; where the
 * period is the one of before, another payment failed within it. Only being active again ends it: who leaves
 * PAST_DUE without having paid, and returns, has no new time of grace.
 */
const pastDueSinceOf = (
  { periodStart }: ProviderSubscription,
  status: SubscriptionStatus,
  { now, before }: At,
): Date | null => {
  const known = before?.pastDueSince ?? null;
  if (status === "ACTIVE") return null;
  if (status !== "PAST_DUE" || known) return known;
  return periodStart.getTime() === before?.periodStart?.getTime() ? now : periodStart;
};

const ofSubscription = (of: ProviderSubscription, prices: readonly PriceOf[], at: At): Projection => {
  const { id: subscriptionId, periodStart, periodEnd, cancelAtPeriodEnd, trialEnd } = of;
  const status = statusOf(of);
  const price = prices.find(({ priceId }) => priceId === of.priceId);
  const { plan, interval } = price ?? { plan: null, interval: null };
  const pastDueSince = pastDueSinceOf(of, status, at);
  const isFailing = status === "PAST_DUE" && pastDueSince !== null;
  const graceEnd = isFailing ? new Date(pastDueSince.getTime() + GRACE_DAYS * DAY_MS) : null;
  const isEntitled = ENTITLED.has(status) || (graceEnd !== null && at.now < graceEnd);
  const paid = { subscriptionId, plan, interval, periodStart, periodEnd, cancelAtPeriodEnd, trialEnd };
  return { status, ...paid, graceEnd, pastDueSince, entitled: isEntitled ? plan : "FREE" };
};
