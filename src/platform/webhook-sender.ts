import type { OutboundSettings } from "../config/sections.ts";
import type {
  WebhookOutcome,
  WebhookRequest,
  WebhookSender,
} from "../domain/delivery/webhooks/delivering/sender.ts";
import {
  type Answer,
  bodyText,
  type Connection,
  type Connections,
  createConnections,
  Deadline,
  Exchange,
  FloodWatch,
  isStale,
  type Message,
  retryAfterSeconds,
} from "./guard/connections.ts";
import {
  createConnect,
  createGuard,
  createNameResolver,
  Fault,
  faultText,
  type Guard,
  type NameResolver,
  NOT_PUBLIC,
  Refused,
  type Target,
} from "./guard/faults.ts";
import { Bulkhead } from "../domain/kernel/bulkhead.ts";

/** Maximum number of concurrent requests of a process; further ones queue within their own time limit. */
const IN_FLIGHT_MAX = 256;
/** Maximum number of those that queue: pumps and tests send far fewer at once. */
const QUEUED_MAX = 10_000;
/** Time limit for looking up a name when its address is given. */
const CHECK_MS = 3_000;

/** For tests: DNS servers and certificate authorities that the system does not know. */
export type SenderParts = {
  /** Addresses of DNS servers, with ports. */
  dnsServers?: readonly string[];
  /** PEM. */
  ca?: string;
};

/** Sends requests to webhook endpoints over a pool of guarded connections. */
export const createWebhookSender = (
  settings: OutboundSettings,
  { dnsServers, ca }: SenderParts = {},
): WebhookSender => {
  const guard = createGuard(settings);
  const names = createNameResolver({ isLocal: guard.isLocal, servers: dnsServers });
  const connections = createConnections(createConnect({ guard, names, ca }));
  const slots = new Bulkhead({ ofAll: { slots: IN_FLIGHT_MAX, waiting: QUEUED_MAX }, refusal: tooMany });
  const ways: Ways = { connections, slots, flood: new FloodWatch() };

  return {
    check: (url) => check(url, guard, names),
    send: async (request) => {
      const startMs = performance.now();
      const { target, problem } = guard.judge(request.url);
      const answer =
        target === undefined ? without(new Refused(problem)) : await deliver(target, request, ways);
      return outcomeOf(answer, Math.round(performance.now() - startMs));
    },
    close: async () => {
      ways.flood.close();
      connections.close();
    },
  };
};

type Ways = { connections: Connections; slots: Bulkhead; flood: FloodWatch };

const tooMany = (): Fault => new Fault("too many requests are on their way");

/** Accepts names that cannot be looked up now: each delivery attempt looks them up and checks them again. */
const check = async (url: string, guard: Guard, names: NameResolver): Promise<string | undefined> => {
  const { target, problem } = guard.judge(url);
  if (target === undefined) return problem;
  if (target.isAddress || guard.isLocal) return undefined;
  const addresses = await names.resolve(target.host, AbortSignal.timeout(CHECK_MS)).catch(() => []);
  return addresses.every(guard.isAllowed) ? undefined : NOT_PUBLIC;
};

const without = (error: unknown): Answer => ({
  status: null,
  retryAfter: undefined,
  parts: [],
  isCut: false,
  error,
});

const deliver = async (target: Target, request: WebhookRequest, ways: Ways): Promise<Answer> => {
  const deadline = new Deadline(request.timeoutMs, request.signal);
  try {
    return await ways.slots.run("", () => ask(target, request, { ...ways, deadline }), deadline);
  } catch (error) {
    // Its time was over, or too many queued, before it had a slot.
    if (error instanceof Fault) return without(error);
    throw error;
  } finally {
    deadline.clear();
  }
};

type Attempt = Ways & { deadline: Deadline };

const ask = async (target: Target, request: WebhookRequest, attempt: Attempt): Promise<Answer> => {
  const message = { path: target.path, headers: headersOf(request), body: request.body };
  const { connections, deadline } = attempt;
  const kept = connections.takeIdle(target.origin);
  if (kept) {
    const answer = await exchange(kept, message, attempt);
    if (!isStale(answer) || deadline.fault) return answer;
    // The server was closing the connection. Webhooks may arrive twice, so a retry is safe.
  }
  return exchange(connections.open(target), message, attempt);
};

const exchange = async (connection: Connection, message: Message, attempt: Attempt): Promise<Answer> => {
  const { connections, deadline, flood } = attempt;
  const one = new Exchange(connection, message);
  deadline.onOver = (fault) => one.fail(fault);
  if (deadline.fault) one.fail(deadline.fault);
  flood.add(one);
  const answer = await one.answer;
  flood.delete(one);
  if (answer.isCut || answer.error !== undefined) connection.end();
  else connections.giveBack(connection);
  return answer;
};

/** In undici's preferred form: names and values alternate. Response bodies are kept as received. */
const headersOf = ({ headers }: WebhookRequest): string[] => {
  const list = ["accept-encoding", "identity"];
  for (const name in headers) list.push(name, headers[name] ?? "");
  return list;
};

const outcomeOf = (answer: Answer, durationMs: number): WebhookOutcome => {
  const { status, error, retryAfter, parts, isCut } = answer;
  const isSuccess = error === undefined && status !== null && status >= 200 && status <= 299;
  return {
    isSuccess,
    responseCode: status,
    responseBody: status === null ? null : bodyText(parts, isCut),
    durationMs,
    error: isSuccess ? null : error === undefined ? statusText(status ?? 0) : faultText(error),
    isRefused: error instanceof Refused,
    retryAfterSeconds: retryAfter === undefined ? null : retryAfterSeconds(retryAfter, Date.now()),
  };
};

const statusText = (status: number): string =>
  `the endpoint answered ${status}${status >= 300 && status <= 399 ? ": redirects are not followed" : ""}`;
