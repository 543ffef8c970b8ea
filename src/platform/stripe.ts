import type Stripe from "stripe";
import type { Logger } from "pino";
import type { BillingSettings } from "../config/sections.ts";
import { CustomerUnknown, keyOf, ProviderFailed } from "../domain/accounts/billing/buy.ts";
import type {
  BillingProvider,
  Interval,
  PriceOf,
  ProviderSubscription,
} from "../domain/accounts/billing/provider.ts";
import { invalid } from "../domain/kernel/errors.ts";
import { isoOf } from "../domain/kernel/iso-time.ts";
import { onceLoaded } from "../domain/kernel/flights.ts";

/** What Stripe calls intervals. */
const PERIODS: Readonly<Record<Interval, Stripe.Price.Recurring["interval"]>> = {
  monthly: "month",
  yearly: "year",
};

/** Returns why a price cannot be sold, as a predicate; undefined when it can. */
const problemOf = ({ active, recurring }: Stripe.Price, { interval }: PriceOf): string | undefined => {
  if (!active) return "is archived";
  if (recurring === null) return "is paid once and not again and again";
  const { interval: period, interval_count: count } = recurring;
  return period === PERIODS[interval] && count === 1 ? undefined : `is not paid ${interval}`;
};

/**
 * Asks Stripe for the prices that are sold.
 * @returns the problem of each that cannot be sold; empty: all can be
 * @throws Error of the library, where the key is refused or Stripe does not answer
 */
export const checkStripePrices = async (settings: BillingSettings): Promise<string[]> => {
  const stripe = await openStripe(settings);
  const problems: string[] = [];
  for (const price of settings.prices) {
    const { plan, interval, priceId } = price;
    const name = `${plan}_${interval.toUpperCase()}=${priceId}`;
    try {
      const problem = problemOf(await stripe.prices.retrieve(priceId), price);
      if (problem !== undefined) problems.push(`${name} ${problem}`);
    } catch (error) {
      if (!isGone(error)) throw error;
      problems.push(`${name} is not known to the account and mode of the key`);
    }
  }
  return problems;
};

/** Of one request to Stripe, in ms; it is tried twice. */
const TIMEOUT_MS = 8_000;
const RETRIES = 1;
/** How far the time of a signature may be from ours, both ways, in seconds: Stripe's own tolerance. */
const TOLERANCE_SECONDS = 300;
/** How long prices are kept, in ms. */
const PRICES_KEPT_MS = 600_000;
/** How long after a failure prices are not asked for again, in ms. */
const FAILURE_KEPT_MS = 30_000;
/** Subscriptions of a customer, and events of a look, that are read at most. */
const SUBSCRIPTIONS_MAX = 300;
const EVENTS_MAX = 10_000;
const PAGE = 100;
/** Events after which a subscription may be another one. */
const TYPES = [
  "customer.subscription.created",
  "customer.subscription.updated",
  "customer.subscription.deleted",
  "customer.subscription.paused",
  "customer.subscription.resumed",
];

const msOf = (seconds: number | undefined): number => (seconds ?? 0) * 1_000;
const dateOf = (seconds: number | undefined): Date => new Date(msOf(seconds));
const idOf = (of: string | { id: string } | null | undefined): string | undefined =>
  typeof of === "string" ? of : of?.id;

const subscriptionOf = (from: Stripe.Subscription): ProviderSubscription => {
  const [item] = from.items.data;
  return {
    id: from.id,
    status: from.status as ProviderSubscription["status"],
    priceId: item?.price.id ?? "",
    createdAt: dateOf(from.created),
    // The period is the item's since 2025-03-31.
    periodStart: dateOf(item?.current_period_start),
    periodEnd: dateOf(item?.current_period_end),
    cancelAtPeriodEnd: from.cancel_at_period_end || from.cancel_at !== null,
    trialEnd: from.trial_end === null ? null : dateOf(from.trial_end),
    isCollectionPaused: from.pause_collection !== null,
  };
};

const invoiceOf = (from: Stripe.Invoice) => ({
  id: from.id,
  number: from.number,
  status: from.status ?? "draft",
  currency: from.currency,
  total: from.total,
  amountDue: from.amount_due,
  amountPaid: from.amount_paid,
  periodStart: isoOf(msOf(from.period_start)),
  periodEnd: isoOf(msOf(from.period_end)),
  hostedUrl: from.hosted_invoice_url ?? null,
  pdfUrl: from.invoice_pdf ?? null,
  createdAt: isoOf(msOf(from.created)),
});

const addressOf = (apiBase: string | undefined): Stripe.StripeConfig => {
  if (apiBase === undefined) return {};
  const { hostname: host, port, protocol } = new URL(apiBase);
  return { host, port, protocol: protocol === "http:" ? "http" : "https" };
};

/** Returns the customer that the object of an event belongs to. */
const customerIn = ({ data }: Stripe.Event): string | undefined => {
  const about = data.object as { object: string; id?: string; customer?: string | { id: string } | null };
  return about.object === "customer" ? about.id : idOf(about.customer);
};

const refused = (message: string): Error => invalid("Stripe-Signature", message, "SIGNATURE_INVALID");

/** The times that a signature names, in seconds. */
const timesIn = (signature: string): number[] =>
  signature.split(",").flatMap((part) => {
    const [name, value] = part.split("=");
    return name?.trim() === "t" ? [Number(value)] : [];
  });

/** Loads the library, which is large. */
export const openStripe = async ({ secretKey, apiBase }: BillingSettings): Promise<Stripe> => {
  const { default: Client } = await import("stripe");
  return new Client(secretKey, {
    ...addressOf(apiBase),
    maxNetworkRetries: RETRIES,
    timeout: TIMEOUT_MS,
    telemetry: false,
  });
};

/** What is common to all calls: the library, loaded with the first one, and errors. */
const callerOf = (settings: BillingSettings, log: Logger) => {
  const client = onceLoaded(() => openStripe(settings));
  const call = async <T>(run: (stripe: Stripe) => Promise<T>): Promise<T> => {
    try {
      return await run(await client());
    } catch (err) {
      log.warn({ err }, "Stripe did not answer as expected");
      throw err instanceof CustomerUnknown ? err : new ProviderFailed();
    }
  };
  return { client, call };
};

type Call = ReturnType<typeof callerOf>["call"];

/** Verifies events by each secret: two are valid while one is rotated. */
const verifierOf =
  (client: () => Promise<Stripe>, secrets: readonly string[]) =>
  async (bytes: Uint8Array, signature: string): Promise<string | undefined> => {
    const [time = Number.NaN, ...others] = timesIn(signature);
    // The library takes signatures from the future, which could be kept for later.
    if (others.length > 0 || !(time <= Date.now() / 1_000 + TOLERANCE_SECONDS))
      throw refused("has no time, or one in the future");
    const { webhooks } = await client();
    for (const secret of secrets) {
      try {
        return customerIn(webhooks.constructEvent(Buffer.from(bytes), signature, secret, TOLERANCE_SECONDS));
      } catch {
        // By the next secret, perhaps.
      }
    }
    throw refused("does not fit the body, or is too old");
  };

const soldOf = (prices: readonly PriceOf[]): PriceOf[] =>
  prices.filter(
    (one, n) => prices.findIndex((o) => o.plan === one.plan && o.interval === one.interval) === n,
  );

const costsOf = (
  { call, log }: { call: Call; log: Logger },
  prices: readonly PriceOf[],
): BillingProvider["costs"] => {
  type Costs = Awaited<ReturnType<BillingProvider["costs"]>>;
  let kept: { until: number; costs: Promise<Costs> } | undefined;
  const read = async (): Promise<Costs> => {
    const sold = soldOf(prices).map(({ priceId }) => priceId);
    const found = await call(({ prices: known }) =>
      Promise.all(sold.map((id) => unlessGone(() => known.retrieve(id), undefined))),
    );
    const gone = sold.filter((_, n) => found[n] === undefined);
    // The others are sold.
    if (gone.length > 0) log.error({ prices: gone }, "Stripe does not know prices of STRIPE_PRICES");
    return new Map(
      found.flatMap((one) =>
        one ? [[one.id, { currency: one.currency, unitAmount: one.unit_amount ?? 0 }] as const] : [],
      ),
    );
  };
  return () => {
    if (kept === undefined || kept.until < performance.now()) {
      const costs = read();
      kept = { until: performance.now() + PRICES_KEPT_MS, costs };
      costs.catch(() => (kept = { until: performance.now() + FAILURE_KEPT_MS, costs }));
    }
    return kept.costs;
  };
};

const changesOf =
  (call: Call): BillingProvider["changedSince"] =>
  (sinceMs) =>
    call(async (stripe) => {
      const changed = new Map<string, number>();
      const query = { created: { gte: Math.floor(sinceMs / 1_000) }, types: TYPES, limit: PAGE };
      const events = await stripe.events.list(query).autoPagingToArray({ limit: EVENTS_MAX });
      for (const event of events) {
        const customer = customerIn(event);
        if (customer !== undefined)
          changed.set(customer, Math.max(changed.get(customer) ?? 0, msOf(event.created)));
      }
      return changed;
    });

/** Whether Stripe knows no such thing, as of another account or mode than the key's. */
export const isGone = (error: unknown): boolean => (error as { code?: unknown }).code === "resource_missing";

/** Answers `otherwise` for what is not there any more. */
const unlessGone = async <T, O>(run: () => PromiseLike<T>, otherwise: O): Promise<T | O> => {
  try {
    return await run();
  } catch (error) {
    if (isGone(error)) return otherwise;
    throw error;
  }
};

/** Stripe takes a call about an empty id for one about nobody, or everybody. */
const idOrThrow = (id: string): string => {
  if (!id) throw new Error("a call to Stripe lacks the id that it is about");
  return id;
};

const customersOf = (call: Call): Pick<BillingProvider, "createCustomer" | "updateCustomer"> => ({
  createCustomer: ({ tenantId, name, email, instead = "" }) =>
    call(async ({ customers }) => {
      const idempotencyKey = `laurel-customer-${keyOf({ tenantId, name, email, instead })}`;
      return (await customers.create({ name, email, metadata: { tenantId } }, { idempotencyKey })).id;
    }),
  updateCustomer: (id, of) =>
    call(({ customers }) =>
      unlessGone(async () => {
        await customers.update(idOrThrow(id), of);
        return true;
      }, false),
    ),
});

const subscriptionsOf =
  (call: Call): BillingProvider["subscriptionsOf"] =>
  (customer) =>
    call(async ({ subscriptions, customers }) => {
      const query = { customer: idOrThrow(customer), status: "all", limit: PAGE } as const;
      try {
        const found = await subscriptions.list(query).autoPagingToArray({ limit: SUBSCRIPTIONS_MAX });
        return found.map(subscriptionOf);
      } catch (error) {
        if (!isGone(error)) throw error;
        const known = await unlessGone(() => customers.retrieve(customer), undefined);
        // To the key of another account, or of another mode, nothing is there.
        if (!known) throw new CustomerUnknown();
        if (known.deleted) return undefined;
        throw error;
      }
    });

/** Creates what speaks to Stripe; sends no request before it is used. */
export const createStripe = (settings: BillingSettings, log: Logger): BillingProvider => {
  const { client, call } = callerOf(settings, log);
  return {
    prices: settings.prices,
    costs: costsOf({ call, log }, settings.prices),
    ...customersOf(call),
    createCheckout: ({ customerId: customer, priceId, successUrl, cancelUrl }) =>
      call(async ({ checkout }) => {
        const { id, url } = await checkout.sessions.create({
          mode: "subscription",
          customer: idOrThrow(customer),
          line_items: [{ price: priceId, quantity: 1 }],
          success_url: successUrl,
          cancel_url: cancelUrl,
        });
        if (url === null) throw new Error("Stripe has made a checkout without an address");
        return { id, url };
      }),
    expireCheckouts: (customer) =>
      call(async ({ checkout }) => {
        const query = { customer: idOrThrow(customer), status: "open", limit: PAGE } as const;
        const list = () => checkout.sessions.list(query);
        const { data } = await unlessGone(list, { data: [] });
        // One that is paid meanwhile cannot be ended: a reading of the customer finds what it has bought.
        for (const { id } of data) await checkout.sessions.expire(id).catch(() => undefined);
      }),
    createPortal: ({ customerId: customer, returnUrl: return_url }) =>
      call(({ billingPortal }) =>
        unlessGone(async () => {
          const { url } = await billingPortal.sessions.create({ customer: idOrThrow(customer), return_url });
          return { url };
        }, undefined),
      ),
    subscriptionsOf: subscriptionsOf(call),
    endSubscription: (id) =>
      call(async ({ subscriptions }) => {
        const bill = { prorate: true, invoice_now: true };
        await unlessGone(() => subscriptions.cancel(idOrThrow(id), bill), undefined);
      }),
    invoicesOf: ({ customerId: customer, limit, after }) =>
      call(async ({ invoices }) => {
        const page = after === undefined ? {} : { starting_after: after };
        const { data, has_more } = await invoices.list({ customer: idOrThrow(customer), limit, ...page });
        return { invoices: data.map(invoiceOf), hasMore: has_more };
      }),
    changedSince: changesOf(call),
    customerOf: verifierOf(client, settings.webhookSecrets),
  };
};
