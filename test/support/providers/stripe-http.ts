import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export const STRIPE_KEY = "sk_test_of_the_tests";

export type Json = Record<string, unknown>;

/** A page of a list, as Stripe cuts it. */
export const listOf = (data: readonly Json[], query: URLSearchParams): Json => {
  const limit = Number(query.get("limit") ?? 10);
  const after = data.findIndex(({ id }) => id === query.get("starting_after"));
  const page = data.slice(after + 1, after + 1 + limit);
  return { object: "list", data: page, has_more: after + 1 + page.length < data.length, url: "/" };
};

/** An answer that is none. */
export class Refusal extends Error {
  readonly status: number;
  readonly body: Json;
  constructor(status: number, body: Json) {
    super(String(body["message"]));
    this.status = status;
    this.body = body;
  }
}

export const missing = (id: string): Refusal =>
  new Refusal(404, {
    type: "invalid_request_error",
    code: "resource_missing",
    message: `No such thing: ${id}`,
  });

type Call = { form: URLSearchParams; query: URLSearchParams; id: string };
/** By method and path; `ID` stands for an id. */
export type Handlers = Record<string, Handler>;
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
export const startStripeHttp = async (
  parts: HttpParts,
): Promise<{ url: string; stop: () => Promise<void> }> => {
  const answer = answerOf(parts);
  const reply = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [status, body] = await answer(request).then((made): [number, Json] => [200, made], failureOf);
    response.writeHead(status, { "Content-Type": "application/json", "Request-Id": "req_fake" });
    response.end(JSON.stringify(body));
  };
  const server = createServer((request, response) => void reply(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
};
