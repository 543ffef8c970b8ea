import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";

const REQUEST_TIMEOUT_MS = 30_000;
/** Delay between two attempts while the server is unavailable. */
const AGAIN_MS = 2_000;

/** Ends a command; the message is meant for the person at the terminal. */
export class ApiFailure extends Error {}

export type Api = {
  /** Without a path of the API. */
  url: string;
  key: string;
  stop: AbortSignal;
  /**
   * Called each time the server becomes unavailable or available; with it calls wait, without it they fail.
   */
  onWaiting?: (note: string) => void;
};

const Refusal = z.object({ error: z.object({ message: z.string(), reason: z.string().optional() }) });

const isTransient = (status: number): boolean => status === 429 || status >= 500;

/** What to do about a refusal. */
const REMEDIES: Partial<Record<number, string>> = {
  401: "check --key: a project's key begins with svc_live_ or svc_test_",
  404: "check --url",
};

/** Explains a refusal and what to do about it. */
const explain = (status: number, answer: unknown): string => {
  const { data } = Refusal.safeParse(answer);
  if (!data) return `the server answered ${status}, and not as Laurel does: check --url`;
  const { message, reason } = data.error;
  const remedy = REMEDIES[status];
  return [String(status), reason, message].filter(Boolean).join(" ") + (remedy ? ` (${remedy})` : "");
};

type Answered = { status: number; answer: unknown };

const ask = async ({ url, key, stop }: Api, path: string, body: unknown): Promise<Answered> => {
  const response = await fetch(`${url}/api/v1${path}`, {
    method: body === undefined ? "GET" : "POST",
    // The key must be sent to this server and no other.
    redirect: "manual",
    headers: { "X-API-Key": key, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.any([stop, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
  });
  const { status } = response;
  const elsewhere = response.headers.get("location");
  if (status >= 300 && status < 400 && elsewhere !== null)
    throw new ApiFailure(`${url} redirects to ${elsewhere}: use that address as --url`);
  return { status, answer: await response.json().catch(() => undefined) };
};

/**
 * Calls the API; with `onWaiting` retries while the server is unavailable or asks to wait.
 * @param body of a POST; without it a GET
 * @throws ApiFailure for a refusal, and when it is stopped
 */
export const callApi = async <T>(api: Api, path: string, shape: z.ZodType<T>, body?: unknown): Promise<T> => {
  for (let isAway = false; ; isAway = true) {
    const outcome = await tryOnce(api, path, body);
    if (!("passing" in outcome)) {
      if (isAway) api.onWaiting?.("the server is back");
      return answerOf(outcome, shape);
    }
    if (!api.onWaiting) throw new ApiFailure(outcome.passing);
    if (!isAway) api.onWaiting(`waiting: ${outcome.passing}`);
    await delay(AGAIN_MS, undefined, { signal: api.stop }).catch(() => undefined);
    throwIfStopped(api);
  }
};

const throwIfStopped = ({ stop }: Api): void => {
  if (stop.aborted) throw new ApiFailure("stopped");
};

/** Returns the answer, or the obstacle, which may be temporary. */
const tryOnce = async (api: Api, path: string, body: unknown): Promise<Answered | { passing: string }> => {
  try {
    const answered = await ask(api, path, body);
    const { status, answer } = answered;
    return isTransient(status) ? { passing: explain(status, answer) } : answered;
  } catch (error) {
    throwIfStopped(api);
    if (error instanceof ApiFailure) throw error;
    return { passing: `no answer from ${api.url}: is the server running?` };
  }
};

const answerOf = <T>({ status, answer }: Answered, shape: z.ZodType<T>): T => {
  const { data } = shape.safeParse(answer);
  if (status < 300 && data !== undefined) return data;
  throw new ApiFailure(explain(status, answer));
};
