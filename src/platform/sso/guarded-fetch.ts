import type { CustomFetch } from "openid-client";
import type { Dispatcher } from "undici";
import { KeyedSemaphore, Semaphore } from "../../domain/kernel/semaphore.ts";
import type { Connections } from "../guard/connections.ts";
import { Fault, Refused } from "../guard/faults.ts";
import type { Guard } from "../guard/url.ts";
import { Deadline } from "../guard/waiting.ts";

/** Time limit for one request to an identity provider, over all its phases, in ms. */
const REQUEST_MS = 10_000;
/** Maximum bytes of an answer: the keys of a provider, with their certificates, have some tens of KiB. */
const ANSWER_MAX_BYTES = 128 * 1_024;
/** Requests at once of one tenant, whose provider may answer none of them, and how many wait. */
const OF_TENANT_MAX = 8;
const OF_TENANT_QUEUED_MAX = 50;
/** As these, of all tenants. */
const IN_FLIGHT_MAX = 256;
const QUEUED_MAX = 1_000;

/** The failure of a request, as `fetch` reports one, with why in the words of the guard. */
export class FetchFailed extends TypeError {
  constructor(cause: unknown) {
    super("fetch failed", { cause });
  }
}

const bodyOf = async (body: Dispatcher.ResponseData["body"]): Promise<Buffer> => {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of body as AsyncIterable<Buffer>) {
    length += part.byteLength;
    if (length > ANSWER_MAX_BYTES) throw new Fault(`the answer is over ${ANSWER_MAX_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
};

const headersOf = (headers: Dispatcher.ResponseData["headers"]): Headers => {
  const list = new Headers();
  for (const [name, value] of Object.entries(headers))
    for (const one of [value ?? []].flat()) list.append(name, one);
  return list;
};

/** Statuses whose answers have no body, by the rules of `Response`. */
const BODILESS: ReadonlySet<number> = new Set([101, 204, 205, 304]);

type Request = Parameters<CustomFetch>[1];

/** What the library sends are forms. */
const textOf = (body: Request["body"]): string | null => {
  if (body == null) return null;
  if (typeof body === "string" || body instanceof URLSearchParams) return body.toString();
  throw new TypeError("a body of this kind is not sent");
};

/** Returns the `fetch` of one tenant, whose id is given: tenants do not wait for each other's providers. */
export type TenantFetch = (tenantId: string) => CustomFetch;

/**
 * Like `fetch`, for addresses that tenants have configured: only where the guard allows, over a connection of
 * its own, within 10 s and 128 KiB, without following redirects, few at once of each tenant.
 *
 * @throws FetchFailed, whose cause says why
 */
export const createGuardedFetch = (guard: Guard, connections: Connections): TenantFetch => {
  const refusal = () => new Fault("too many requests are on their way");
  const all = new Semaphore({ slots: IN_FLIGHT_MAX, waitingMax: QUEUED_MAX, refusal });
  const ofTenants = new KeyedSemaphore({ slots: OF_TENANT_MAX, waitingMax: OF_TENANT_QUEUED_MAX, refusal });
  const ask = async (url: string, request: Request, deadline: Deadline): Promise<Response> => {
    const { target, problem } = guard.judge(url);
    if (target === undefined) throw new Refused(problem);
    const { method, headers, body } = request;
    const connection = connections.open(target);
    // The library heeds a signal only once a name is looked up and a connection is there.
    deadline.onOver = connection.end;
    try {
      const answer = await connection.client.request({
        method,
        path: target.path,
        headers: { ...headers, "accept-encoding": "identity" },
        body: textOf(body),
      });
      const bytes = await bodyOf(answer.body);
      const { statusCode: status } = answer;
      const sent = bytes.length === 0 || BODILESS.has(status) ? null : new Uint8Array(bytes);
      return new Response(sent, { status, headers: headersOf(answer.headers) });
    } finally {
      connection.end();
    }
  };
  return (tenantId) => async (url, request) => {
    const deadline = new Deadline(REQUEST_MS, request.signal);
    const send = () => all.run(() => ask(url, request, deadline), deadline);
    try {
      return await ofTenants.run(tenantId, send, deadline);
    } catch (error) {
      throw new FetchFailed(deadline.fault ?? error);
    } finally {
      deadline.clear();
    }
  };
};
