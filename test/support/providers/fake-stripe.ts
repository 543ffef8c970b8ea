import { createHmac, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { listen } from "../http/listen.ts";

const STRIPE_KEY = "sk_test_of_the_tests";

type Json = Record<string, unknown>;

/** A page of a list, as Stripe cuts it. */
const listOf = (data: readonly Json[], query: URLSearchParams): Json => {
  const limit = Number(query.get("limit") ?? 10);
  const after = data.findIndex(({ id }) => id === query.get("starting_after"));
  const page = data.slice(after + 1, after + 1 + limit);
  return { object: "list", data: page, has_more: after + 1 + page.length < data.length, url: "/" };
};

/** An answer that is none. */
class Refusal extends Error {
  readonly status: number;
  readonly body: Json;
  constructor(status: number, body: Json) {
    super(String(body["message"]));
    this.status = status;
    this.body = body;
  }
}

const missing = (id: string): Refusal =>
  new Refusal(404, {
    type: "invalid_request_error",
    code: "resource_missing",
    message: `No such thing: ${id}`,
  });

type Call = { form: URLSearchParams; query: URLSearchParams; id: string };
/** By method and path; `ID` stands for an id. */
type Handlers = Record<string, Handler>;
type Handler = (call: Call) => Json | Promise<Json>;

type HttpParts = {
  handlers: Handlers;
  requests: string[];
  /** The status that every request is answered with; undefined: as the handlers answer. */
  failing: () => number | undefined;
};

/** Refuses what Stripe would refuse: another key, no version, a body that is no form. */
const check = ({ headers }: IncomingMessage, body: string): void => {
  if (headers.authorization !== `Bearer ${STRIPE_KEY}`)
    throw new Refusal(401, { message: "Invalid API Key" });
  if (!/^\d{4}-\d\d-\d\d/.test(String(headers["stripe-version"])))
    throw new Refusal(400, { message: "version" });
  const isForm = headers["content-type"] === "application/x-www-form-urlencoded";
  if (body !== "" && !isForm) throw new Refusal(400, { message: "not a form" });
};

/** Returns the handler's name of a path, and the id in it. */
const placeOf = (method: string, pathname: string): { name: string; id: string } => {
  const [, , resource = "", ...rest] = pathname.split("/");
  const group = ["checkout", "billing_portal"].includes(resource) ? `/${rest.shift() ?? ""}` : "";
  const [id = "", action] = rest;
  const parts = [id === "" ? "" : "/ID", action === undefined ? "" : `/${action}`];
  return { name: `${method} ${resource}${group}${parts.join("")}`, id };
};

/** Returns what answers a key as it was answered before, and refuses it with another request. */
const keyed = () => {
  const kept = new Map<string, { sent: string; answer: Json }>();
  return async (key: string | undefined, sent: string, make: () => Json | Promise<Json>): Promise<Json> => {
    if (key === undefined) return make();
    const known = kept.get(key);
    if (known && known.sent !== sent)
      throw new Refusal(400, { type: "idempotency_error", message: "other parameters" });
    const answer = known?.answer ?? (await make());
    kept.set(key, { sent, answer });
    return answer;
  };
};

const answerOf = ({ handlers, requests, failing }: HttpParts) => {
  const answerOnce = keyed();
  return async (request: IncomingMessage): Promise<Json> => {
    const { method = "" } = request;
    const { pathname, searchParams: query } = new URL(request.url ?? "", "http://stripe");
    requests.push(`${method} ${pathname}`);
    const body = await text(request);
    const status = failing();
    if (status !== undefined) throw new Refusal(status, { type: "api_error", message: "down" });
    check(request, body);
    const { name, id } = placeOf(method, pathname);
    const handler = handlers[name];
    if (!handler) throw new Refusal(404, { message: `Unrecognized request URL (${method}: ${pathname})` });
    const key = method === "POST" ? (request.headers["idempotency-key"] as string | undefined) : undefined;
    return answerOnce(key, `${pathname}?${body}`, () =>
      handler({ form: new URLSearchParams(body), query, id }),
    );
  };
};

const failureOf = (error: unknown): [number, Json] =>
  error instanceof Refusal
    ? [error.status, { error: error.body }]
    : [500, { error: { message: String(error) } }];

/** Starts a server that answers as Stripe's API does. */
const startStripeHttp = async (parts: HttpParts): Promise<{ url: string; stop: () => Promise<void> }> => {
  const answer = answerOf(parts);
  const reply = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [status, body] = await answer(request).then((made): [number, Json] => [200, made], failureOf);
    response.writeHead(status, { "Content-Type": "application/json", "Request-Id": "req_fake" });
    response.end(JSON.stringify(body));
  };
  const server = createServer((request, response) => void reply(request, response));
  const { url, close } = await listen(server);
  return { url, stop: close };
};

export const STRIPE_SECRET = "whsec_of_the_tests_and_of_nothing_else";
/** Signs beside the current one, as while a secret is rotated. */
export const OLD_STRIPE_SECRET = "whsec_of_the_tests_before_it_was_rotated";
const STRIPE_PRICES = [
  "STARTER_MONTHLY=price_starter_m",
  "PRO_MONTHLY=price_pro_m",
  "PRO_YEARLY=price_pro_y",
  "PRO_MONTHLY=price_pro_old",
].join(",");
const AMOUNTS: Readonly<Record<string, number>> = {
  price_starter_m: 2_900,
  price_pro_m: 9_900,
  price_pro_y: 99_000,
  price_pro_old: 7_900,
};
const DAY = 86_400;

export type FakeSubscription = Json & { id: string; customer: string; status: string; created: number };
export type FakeEvent = { id: string; type: string; created: number; body: string };
type Session = { id: string; customer: string; price: string; status: string; url: string };

/** Stripe as far as Laurel uses it, on this machine: it checks requests as documented, and signs events. */
export type FakeStripe = {
  url: string;
  /** Every request: method and path. */
  requests: string[];
  customers: Map<string, Json>;
  sessions: Map<string, Session>;
  subscriptions: Map<string, FakeSubscription>;
  /** What has happened, oldest first; nothing is sent by itself. */
  events: FakeEvent[];
  /** Somebody pays a checkout. @throws Error for one that was ended */
  pay(sessionId: string, change?: Json): FakeSubscription;
  /** Changes a subscription, as time or people do; `of.period`: start and end in seconds from now. */
  change(id: string, change: Json, of?: { period?: [number, number] }): void;
  /** Somebody changes the plan in the portal. */
  setPrice(id: string, price: string): void;
  /** A subscription without a checkout. */
  subscribe(customer: string, price: string, change?: Json): FakeSubscription;
  /** From now on requests are answered so; undefined: as usual. */
  fail(status: number | undefined): void;
  /** Called before each answer to a request for subscriptions. */
  beforeList: ((customer: string) => Promise<void>) | undefined;
  stop(): Promise<void>;
};

/** Signs as documented: `t` and the HMAC of `t.body`, by the hexadecimal digits of SHA-256. */
export const signStripe = (body: string, seconds: number, secret = STRIPE_SECRET): string =>
  `t=${seconds},v1=${createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex")}`;

const nowSeconds = (): number => Math.floor(Date.now() / 1_000);

export const startFakeStripe = async (): Promise<FakeStripe> => {
  // Ids of one fake are no other's.
  const run = randomUUID().slice(0, 8);
  let [count, failing] = [0, undefined as number | undefined];
  const idOf = (kind: string): string => `${kind}_${String(++count).padStart(6, "0")}${run}`;
  const invoices: Json[] = [];
  const fake = {
    requests: [],
    customers: new Map(),
    sessions: new Map(),
    subscriptions: new Map(),
    events: [],
    beforeList: undefined,
  } as Pick<FakeStripe, "requests" | "customers" | "sessions" | "subscriptions" | "events" | "beforeList">;

  const emit = (type: string, object: Json): void => {
    const [id, created] = [idOf("evt"), nowSeconds()];
    const body = JSON.stringify({ id, object: "event", type, created, data: { object } }, undefined, 2);
    fake.events.push({ id, type, created, body });
  };

  const subscribe: FakeStripe["subscribe"] = (customer, price, change = {}) => {
    const [id, now] = [idOf("sub"), nowSeconds()];
    const item = {
      id: idOf("si"),
      object: "subscription_item",
      price: { id: price, object: "price" },
      current_period_start: now,
      current_period_end: now + 30 * DAY,
    };
    const subscription: FakeSubscription = {
      id,
      object: "subscription",
      customer,
      status: "active",
      created: now + count,
      cancel_at_period_end: false,
      cancel_at: null,
      trial_end: null,
      pause_collection: null,
      items: { object: "list", data: [item], has_more: false },
      ...change,
    };
    fake.subscriptions.set(id, subscription);
    const amount = AMOUNTS[price] ?? 0;
    invoices.unshift({
      id: idOf("in"),
      object: "invoice",
      customer,
      number: `L-${count}`,
      status: "paid",
      currency: "eur",
      total: amount,
      amount_due: amount,
      amount_paid: amount,
      created: now,
      period_start: now,
      period_end: now + 30 * DAY,
      hosted_invoice_url: `https://invoice.stripe.com/i/${count}`,
      invoice_pdf: null,
    });
    emit("customer.subscription.created", subscription);
    return subscription;
  };

  const made = new Set<string>();
  const handlers: Handlers = {
    "POST customers": ({ form }) => {
      const customer = {
        id: idOf("cus"),
        object: "customer",
        name: form.get("name"),
        email: form.get("email"),
      };
      fake.customers.set(customer.id, customer);
      made.add(customer.id);
      return customer;
    },
    "GET customers/ID": ({ id }) => {
      const customer = fake.customers.get(id);
      // Of those that were deleted their ids are known for ever.
      if (!customer && !made.has(id)) throw missing(id);
      return customer ?? { id, object: "customer", deleted: true };
    },
    "POST customers/ID": ({ id, form }) => {
      const customer = fake.customers.get(id);
      if (!customer) throw missing(id);
      return Object.assign(customer, Object.fromEntries(form));
    },
    "POST checkout/sessions": ({ form }) => {
      const customer = form.get("customer") ?? "";
      if (!fake.customers.has(customer)) throw missing(customer);
      if (form.get("mode") !== "subscription") throw new Refusal(400, { message: "mode" });
      const id = idOf("cs_test");
      const price = form.get("line_items[0][price]") ?? "";
      const session = { id, customer, price, status: "open", url: `https://checkout.stripe.com/c/${id}` };
      fake.sessions.set(id, session);
      return { ...session, object: "checkout.session" };
    },
    "GET checkout/sessions": ({ query }) =>
      listOf(
        [...fake.sessions.values()].filter(
          ({ customer, status }) => customer === query.get("customer") && status === query.get("status"),
        ),
        query,
      ),
    "POST checkout/sessions/ID/expire": ({ id }) => {
      const session = fake.sessions.get(id);
      if (!session) throw missing(id);
      if (session.status !== "open")
        throw new Refusal(400, { type: "invalid_request_error", message: "not open" });
      session.status = "expired";
      return { ...session };
    },
    "POST billing_portal/sessions": ({ form }) => {
      const customer = form.get("customer") ?? "";
      if (!fake.customers.has(customer)) throw missing(customer);
      return { id: idOf("bps"), url: `https://billing.stripe.com/p/session/${count}` };
    },
    "GET subscriptions": async ({ query }) => {
      const customer = query.get("customer") ?? "";
      if (!fake.customers.has(customer)) throw missing(customer);
      if (query.get("status") !== "all") throw new Refusal(400, { message: "the tests want all" });
      const data = structuredClone(
        [...fake.subscriptions.values()].filter((one) => one.customer === customer),
      );
      await fake.beforeList?.(customer);
      return listOf(data.toReversed(), query);
    },
    "DELETE subscriptions/ID": ({ id, query, form }) => {
      const subscription = fake.subscriptions.get(id);
      if (!subscription || subscription.status === "canceled") throw missing(id);
      subscription.status = "canceled";
      subscription["ended"] = { ...Object.fromEntries(query), ...Object.fromEntries(form) };
      emit("customer.subscription.deleted", subscription);
      return subscription;
    },
    "GET invoices": ({ query }) =>
      listOf(
        invoices.filter(({ customer }) => customer === query.get("customer")),
        query,
      ),
    "GET prices/ID": ({ id }) => {
      if (AMOUNTS[id] === undefined) throw missing(id);
      const recurring = { interval: id.endsWith("_y") ? "year" : "month", interval_count: 1 };
      return { id, object: "price", currency: "eur", unit_amount: AMOUNTS[id], active: true, recurring };
    },
    "GET events": ({ query }) => {
      const since = Number(query.get("created[gte]"));
      const types = [...query].flatMap(([name, value]) => (name.startsWith("types[") ? [value] : []));
      const found = fake.events.filter(({ created, type }) => created >= since && types.includes(type));
      return listOf(found.map(({ body }) => JSON.parse(body) as Json).toReversed(), query);
    },
  };

  const { url, stop } = await startStripeHttp({ handlers, requests: fake.requests, failing: () => failing });
  return Object.assign(fake, {
    url,
    subscribe,
    pay: (sessionId: string, change: Json = {}) => {
      const session = fake.sessions.get(sessionId);
      if (session?.status !== "open") throw new Error(`the checkout is ${session?.status}`);
      session.status = "complete";
      return subscribe(session.customer, session.price, change);
    },
    change: (id: string, change: Json, { period }: { period?: [number, number] } = {}) => {
      const subscription = fake.subscriptions.get(id)!;
      Object.assign(subscription, change);
      const [item] = (subscription["items"] as { data: Json[] }).data;
      if (period) {
        item!["current_period_start"] = nowSeconds() + period[0];
        item!["current_period_end"] = nowSeconds() + period[1];
      }
      emit(`customer.subscription.${change["status"] === "canceled" ? "deleted" : "updated"}`, subscription);
    },
    setPrice: (id: string, price: string) => {
      const { data } = fake.subscriptions.get(id)!["items"] as { data: Json[] };
      data[0]!["price"] = { id: price, object: "price" };
      emit("customer.subscription.updated", fake.subscriptions.get(id)!);
    },
    fail: (status: number | undefined) => (failing = status),
    stop,
  });
};

/** Settings of a server that sells plans by a fake. */
export const stripeSettings = (url: string): Record<string, string> => ({
  STRIPE_SECRET_KEY: STRIPE_KEY,
  STRIPE_WEBHOOK_SECRETS: `${STRIPE_SECRET},${OLD_STRIPE_SECRET}`,
  STRIPE_PRICES,
  STRIPE_API_BASE: url,
});

let shared: Promise<FakeStripe> | undefined;

/** The Stripe of this mocha process, which its server asks. */
export const sharedFakeStripe = (): Promise<FakeStripe> => (shared ??= startFakeStripe());

after(async () => {
  await (await shared)?.stop();
});
