import { z } from "zod";
import type { App } from "../../app.ts";
import { User } from "../../domain/accounts/auth/user.ts";
import {
  beginCheckout,
  openPortal,
  type ReturnRules,
  showSubscription,
  type SyncParts,
} from "../../domain/accounts/billing/buy.ts";
import { findCustomer, markCustomers } from "../../domain/accounts/billing/customer.ts";
import {
  billingIsOff,
  INTERVALS,
  Invoice,
  SOLD_PLANS,
  SUBSCRIPTION_STATUSES,
} from "../../domain/accounts/billing/provider.ts";
import type { CountingParts } from "../../domain/accounts/rate-limits/limiter.ts";
import { REDIRECT_URI_MAX } from "../../domain/accounts/oauth/provider.ts";
import { takePlan } from "../../domain/delivery/plan-change.ts";
import { showUsage, USAGE_METRICS } from "../../domain/accounts/billing/usage-notices.ts";
import {
  ADMINS,
  eventsTakenOf,
  FEATURES,
  type Plan,
  PLAN_FEATURES,
  PLAN_LIMITS,
  type PlanLimits,
  PLANS,
  userOf,
} from "../../domain/kernel/caller.ts";
import { group } from "../route.ts";
import { cursorBody, Limit } from "./bodies.ts";

/** An object with a field for each limit of a plan. */
export const limitsBody = <S extends z.ZodType>(schema: (name: keyof PlanLimits) => S) => {
  const names = Object.keys(PLAN_LIMITS.FREE) as (keyof PlanLimits)[];
  return z.object(
    Object.fromEntries(names.map((name) => [name, schema(name)])) as Record<keyof PlanLimits, S>,
  );
};

const LIMIT_TEXTS: Partial<Record<keyof PlanLimits, string>> = {
  requestsPerMinute: "Of API keys, for each project; null: no limit",
  eventsPerMonth: "Of all projects and sandboxes; months are those of UTC",
  members: "Members and pending invitations; null: no limit",
};

/** The limits of a plan, or of a tenant. */
export const LimitsBody = limitsBody((name) =>
  z
    .int()
    .nullable()
    .meta({ description: LIMIT_TEXTS[name] ?? "null: no limit" }),
);

/** Bytes of an event of Stripe: those of invoices with many lines are the largest. */
const EVENT_MAX_BYTES = 512 * 1024;

const common = group({ tag: "Billing", project: "none" });
/** Open while the tenant is suspended, so that its team can see why and pay. */
const seen = common.with({ access: { roles: ADMINS, needs: { suspended: true } } });

const refusedAbove = z.int().nullable().meta({
  description: "More than this is refused with 402 PLAN_LIMIT_EXCEEDED; null: nothing is refused",
});

const PlanBody = z
  .object({
    plan: z.enum(PLANS),
    limits: LimitsBody,
    eventsRefusedAbove: refusedAbove,
    features: z.array(z.enum(FEATURES)),
    prices: z
      .array(
        z.object({
          interval: z.enum(INTERVALS),
          currency: z.string(),
          unitAmount: z.int().meta({ description: "In the currency's smallest unit, such as cents" }),
        }),
      )
      .nullable()
      .meta({ description: "Empty for a plan that is not sold here; null while the provider does not say" }),
  })
  .meta({ id: "BillingPlan" });

const UsageBody = z
  .object({
    plan: z.enum(PLANS),
    periodStart: z.iso.datetime().meta({ description: "Of the calendar month in UTC" }),
    periodEnd: z.iso.datetime(),
    items: z.array(
      z.object({
        metric: z.enum(USAGE_METRICS).meta({ description: "The name of the limit of the plan" }),
        used: z.int().meta({ description: "Of keys, by the project that has most of them" }),
        limit: z.int().nullable().meta({ description: "null: no limit" }),
        percent: z.int().nullable().meta({ description: "Of the limit, rounded down; null without a limit" }),
        refusedAbove,
      }),
    ),
  })
  .meta({ id: "BillingUsage" });

const Times = z.iso.datetime().nullable();

const SubscriptionBody = z
  .object({
    plan: z.enum(PLANS).meta({ description: "What the tenant has now" }),
    status: z.enum(SUBSCRIPTION_STATUSES),
    subscribedPlan: z.enum(SOLD_PLANS).nullable().meta({ description: "What the subscription is for" }),
    interval: z.enum(INTERVALS).nullable(),
    currentPeriodStart: Times,
    currentPeriodEnd: Times,
    cancelAtPeriodEnd: z.boolean(),
    trialEnd: Times,
    graceEnd: Times.meta({ description: "While a payment fails: until when the plan is kept" }),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "BillingSubscription" });

/** Returns what a plan costs; null while the payment provider does not say. */
const pricesOf = async ({ billing }: App, plan: Plan) => {
  if (!billing) return [];
  const costs = await billing.costs().catch(() => undefined);
  if (!costs) return null;
  return billing.prices.flatMap((price) => {
    const cost = costs.get(price.priceId);
    return price.plan === plan && cost ? [{ interval: price.interval, ...cost }] : [];
  });
};

const partsOf = (app: App): SyncParts & CountingParts => {
  const { billing } = app;
  if (!billing) throw billingIsOff();
  return { ...app, billing, takePlan };
};

const returnsOf = ({ config }: App): ReturnRules => ({
  origins: new Set([config.consoleUrl, ...config.oauth.redirectUris].map((url) => new URL(url).origin)),
  isProduction: config.isProduction,
});

const Url = z.string().max(REDIRECT_URI_MAX);
/** What is done at Stripe is no part of a transaction. */
const byOwner = common.with({
  takesNoIdempotencyKey: true,
  errors: ["UPSTREAM_ERROR"],
});

export const billingRoutes = [
  common.get("/billing/plans", "listBillingPlans", {
    summary: "List the plans, and what they include",
    access: "public",
    response: z.object({ data: z.array(PlanBody) }),
    outside: async (app) => {
      const shown = PLANS.map(async (plan) => ({
        plan,
        limits: PLAN_LIMITS[plan],
        eventsRefusedAbove: eventsTakenOf({ plan, planOverrides: {} }),
        features: [...PLAN_FEATURES[plan]],
        prices: await pricesOf(app, plan),
      }));
      return { data: await Promise.all(shown) };
    },
  }),
  seen.get("/billing/usage", "getBillingUsage", {
    summary: "Get what is used of the plan",
    description:
      "Events and players with an event, of this calendar month in UTC and of all projects and sandboxes: " +
      "exact, and counted with the event. Of the others what there is. Open while the " +
      "tenant is suspended.",
    response: UsageBody,
    // Keys are those of projects, which the tenant's requests see one at a time.
    outside: ({ transactAs }, { caller, actor: by }) =>
      transactAs({ role: "accounts", by })((work) => showUsage(work, userOf(caller).tenantId)),
  }),
  seen.get("/billing/subscription", "getBillingSubscription", {
    summary: "Get the subscription of the tenant",
    description: "As the payment provider had it when it was last read. Open while the tenant is suspended.",
    response: SubscriptionBody,
    run: (work, { caller }) => showSubscription(work, userOf(caller).tenantId),
  }),
  seen.get("/billing/invoices", "listBillingInvoices", {
    // It waits for the payment provider, and holds none of the few slots of pages meanwhile.
    hasSmallRows: true,
    summary: "List the invoices of the tenant, newest first",
    description: "Read from the payment provider. Empty for a tenant that has bought nothing.",
    errors: ["UPSTREAM_ERROR"],
    query: z.object({
      limit: Limit,
      cursor: z
        .string()
        .regex(/^in_\w{1,200}$/)
        .optional()
        .meta({ description: "pagination.nextCursor of the page before" }),
    }),
    response: cursorBody(Invoice),
    outside: async ({ transact, billing }, { caller, query: { limit, cursor } }) => {
      const customer = await transact((work) => findCustomer(work, userOf(caller).tenantId));
      if (!customer || !billing) return { data: [], pagination: { limit, nextCursor: null } };
      const { customerId } = customer;
      const { invoices, hasMore } = await billing.invoicesOf({ customerId, limit, after: cursor });
      const nextCursor = hasMore ? (invoices.at(-1)?.id ?? null) : null;
      return { data: invoices, pagination: { limit, nextCursor } };
    },
  }),
  byOwner.post("/billing/checkout", "createBillingCheckout", {
    summary: "Begin to buy a plan",
    description:
      "Answers the address of a page of Stripe to send the browser to. The plan changes when it is paid. " +
      "Checkouts that were begun before are ended. With a subscription: POST /billing/portal.",
    access: { roles: ["OWNER"], needs: { verifiedEmail: true } },
    body: z.object({
      plan: z.enum(SOLD_PLANS),
      interval: z.enum(INTERVALS),
      successUrl: Url.meta({ description: "A page of CONSOLE_URL or of one of OAUTH_REDIRECT_URIS" }),
      cancelUrl: Url,
    }),
    example: {
      plan: "PRO",
      interval: "monthly",
      successUrl: "https://console.example.com/billing?paid",
      cancelUrl: "https://console.example.com/billing",
    },
    response: z.object({ url: z.string(), sessionId: z.string() }),
    outside: async (app, { caller, body }) => {
      const { tenantId, userId } = userOf(caller);
      const parts = partsOf(app);
      const { email } = await app.transact(({ em }) => em.findOneOrFail(User, { id: userId }));
      return beginCheckout(parts, { tenantId, email, ...body }, returnsOf(app));
    },
  }),
  byOwner.post("/billing/portal", "createBillingPortal", {
    summary: "Open the billing portal",
    description:
      "Answers the address of a page of Stripe where the subscription is changed, paid and cancelled. Open " +
      "while the tenant is suspended.",
    access: { roles: ["OWNER"], needs: { verifiedEmail: true, suspended: true } },
    body: z.object({ returnUrl: Url }),
    example: { returnUrl: "https://console.example.com/billing" },
    response: z.object({ url: z.string() }),
    outside: (app, { caller, body }) =>
      openPortal(partsOf(app), { tenantId: userOf(caller).tenantId, ...body }, returnsOf(app)),
  }),
  common.post("/billing/webhook", "receiveBillingEvent", {
    summary: "Receive an event of Stripe",
    description:
      "For Stripe alone, which signs its events. An event is nothing but a reason to read the customer's " +
      "subscriptions from Stripe: it may come late, twice, and in any order.",
    access: "public",
    signatureHeader: "stripe-signature",
    requireSigned: async ({ billing }, { bytes, signature }) => {
      if (!billing) throw billingIsOff();
      await billing.customerOf(bytes, signature);
    },
    bodyLimit: EVENT_MAX_BYTES,
    itemised: true,
    body: z.looseObject({}),
    example: {
      id: "evt_1Abc",
      object: "event",
      type: "customer.subscription.updated",
      data: { object: { object: "subscription", customer: "cus_1Abc" } },
    },
    response: z.object({ received: z.literal(true) }),
    outside: async ({ transact, billing }, { signed }) => {
      if (!billing) throw billingIsOff();
      const customerId = await billing.customerOf(signed.bytes, signed.signature);
      if (customerId !== undefined) await transact((work) => markCustomers(work, [customerId]));
      return { received: true } as const;
    },
  }),
];
