import { DomainError } from "../../kernel/errors.ts";
import type { Plan } from "../../kernel/plans.ts";

export const INTERVALS = ["monthly", "yearly"] as const;
export type Interval = (typeof INTERVALS)[number];
/** Plans that are bought; FREE is what remains without, and ENTERPRISE is set by a super-admin. */
export const SOLD_PLANS = ["STARTER", "PRO"] as const satisfies readonly Plan[];
export type SoldPlan = (typeof SOLD_PLANS)[number];

/** A price at the payment provider. Of several for one plan and interval the first is sold. */
export type PriceOf = { plan: SoldPlan; interval: Interval; priceId: string };

/** All statuses of a subscription at Stripe. */
export type ProviderStatus =
  | "incomplete"
  | "incomplete_expired"
  | "trialing"
  | "active"
  | "past_due"
  | "canceled"
  | "unpaid"
  | "paused";

/** A subscription as the payment provider has it now. Times are in ms since 1970. */
export type ProviderSubscription = {
  id: string;
  status: ProviderStatus;
  priceId: string;
  createdMs: number;
  /** Of the item that is paid. */
  periodStartMs: number;
  periodEndMs: number;
  cancelAtPeriodEnd: boolean;
  trialEndMs: number | null;
  /** Payments are not collected for a while. */
  isCollectionPaused: boolean;
};

export type Invoice = {
  id: string;
  number: string | null;
  status: string;
  currency: string;
  /** In the currency's smallest unit. */
  total: number;
  amountDue: number;
  amountPaid: number;
  createdMs: number;
  periodStartMs: number;
  periodEndMs: number;
  hostedUrl: string | null;
  pdfUrl: string | null;
};

export type Checkout = { customerId: string; priceId: string; successUrl: string; cancelUrl: string };

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
