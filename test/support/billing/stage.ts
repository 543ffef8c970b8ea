import assert from "node:assert/strict";
import { type Answer, aTenant, shareApp, type Tenant, type TestApp } from "../app/app.ts";
import { eventually, eventuallyHolds } from "../eventually.ts";
import { must } from "../http/client.ts";
import { temporaryDir } from "../processes/process.ts";
import {
  type FakeEvent,
  type FakeStripe,
  type FakeSubscription,
  signStripe,
  startFakeStripe,
  STRIPE_SECRET,
  stripeSettings,
} from "../providers/fake-stripe.ts";

export const BILLING = "/api/v1/billing";
export const CONSOLE = "https://console.test.example";
/** In seconds. */
export const DAY = 86_400;
export const seconds = (): number => Math.floor(Date.now() / 1_000);

type Order = { plan?: string; interval?: string; successUrl?: string; cancelUrl?: string };
/** How an event is posted: by default signed now, with the current secret. */
export type Posted = { at?: number; secret?: string; signature?: string; body?: string };

/** A server that sells plans by a Stripe of the tests, and one tenant after another that buys. */
export type BillingStage = {
  api: TestApp;
  stripe: FakeStripe;
  tenant: Tenant;
  checkout(change?: Order, of?: Tenant): Promise<Answer>;
  /** Begins a checkout. @returns its id */
  begin(change?: Order, of?: Tenant): Promise<string>;
  subscription(of?: Tenant): Promise<Answer["body"]>;
  /** Waits for the tenant's plan, and the status of its subscription. */
  becomes(plan: string, status: string, of?: Tenant): Promise<void>;
  deliver(event: FakeEvent, posted?: Posted): Promise<Answer>;
  /** Delivers what has happened last to the tenant. */
  ring(of?: Tenant): Promise<void>;
  customerOf(of: Tenant): string;
  eventsOf(of: Tenant): FakeEvent[];
  /** Waits until a tenant was read from Stripe, since `run` began. */
  rereadAfter(run: () => Promise<unknown>): Promise<void>;
  bought(change?: Order, of?: Tenant): Promise<FakeSubscription>;
};

const order = (change: Order) => ({
  plan: "STARTER",
  interval: "monthly",
  successUrl: `${CONSOLE}/billing?paid={CHECKOUT_SESSION_ID}`,
  cancelUrl: `${CONSOLE}/billing`,
  ...change,
});

const post = async (url: string, event: FakeEvent, posted: Posted): Promise<Answer> => {
  const { at = seconds(), secret = STRIPE_SECRET, body = event.body } = posted;
  const signature = posted.signature ?? signStripe(event.body, at, secret);
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json; charset=utf-8",
      ...(signature === "" ? {} : { "Stripe-Signature": signature }),
    },
    body,
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
};

/** Opens a stage for the tests of a `describe`, with a tenant for each. */
export const billingStage = (): BillingStage => {
  const stage = {} as BillingStage;
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  before(async () => {
    stage.stripe = await startFakeStripe();
    directory = await temporaryDir();
    stage.api = await shareApp({
      ...stripeSettings(stage.stripe.url),
      DEFAULT_PLAN: "",
      CONSOLE_URL: CONSOLE,
      DATA_DIR: directory.path,
    });
  });
  after(async () => {
    await stage.api.stop();
    await stage.stripe.stop();
    await directory.remove();
  });
  beforeEach(async () => {
    stage.tenant = await aTenant(stage.api);
  });
  afterEach(() => {
    stage.stripe.fail(undefined);
    stage.stripe.beforeList = undefined;
  });

  const readings = (): number =>
    stage.stripe.requests.filter((one) => one === "GET /v1/subscriptions").length;
  return Object.assign(stage, {
    checkout: (change: Order = {}, of = stage.tenant) =>
      stage.api.post(`${BILLING}/checkout`, order(change), { token: of.token }),
    begin: async (change: Order = {}, of = stage.tenant) =>
      must(await stage.checkout(change, of), 200).sessionId,
    subscription: async (of = stage.tenant) =>
      must(await stage.api.get(`${BILLING}/subscription`, { token: of.token }), 200),
    becomes: (plan: string, status: string, of = stage.tenant) =>
      eventuallyHolds(async () => {
        const now = await stage.subscription(of);
        assert.deepEqual([now.plan, now.status], [plan, status]);
      }),
    deliver: (event: FakeEvent, posted: Posted = {}) =>
      post(`${stage.api.url}${BILLING}/webhook`, event, posted),
    ring: async (of = stage.tenant) => {
      must(await stage.deliver(stage.eventsOf(of).at(-1)!), 200);
    },
    customerOf: (of: Tenant) =>
      [...stage.stripe.customers.values()].find(({ email }) => email === of.email)!["id"] as string,
    eventsOf: (of: Tenant) =>
      stage.stripe.events.filter(
        ({ body }) => JSON.parse(body).data.object.customer === stage.customerOf(of),
      ),
    rereadAfter: async (run: () => Promise<unknown>) => {
      const known = readings();
      await run();
      await eventually(() => readings() > known);
    },
    bought: async (change: Order = {}, of = stage.tenant) => {
      const paid = stage.stripe.pay(await stage.begin(change, of));
      await stage.ring(of);
      await stage.becomes(change.plan ?? "STARTER", "ACTIVE", of);
      return paid;
    },
  });
};
