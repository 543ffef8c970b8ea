import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";

const TIMEOUT_MS = 30_000;
/** Delay between two attempts while the server is unavailable. */
const AGAIN_MS = 2_000;

/** Ends a command; the message is meant for the person at the terminal. */
export class ApiFailure extends Error {}

export type Api = {
  /** Without a path of the API. */
  url: string;
  /** Say who calls. */
  headers: Readonly<Record<string, string>>;
  stop: AbortSignal;
  /** How long to wait for an answer, in ms; default: 30 s. */
  timeoutMs?: number;
  /**
   * Called each time the server becomes unavailable or available; with it calls wait, without it they fail.
   */
  onWaiting?: (note: string) => void;
};

const Problem = z.object({ field: z.string(), message: z.string() });
const Refusal = z.object({
  error: z.object({
    message: z.string(),
    reason: z.string().optional(),
    details: z.array(Problem).default([]),
  }),
});

const isTransient = (status: number): boolean => status === 429 || status >= 500;

/** What to do about a refusal. */
const remedyOf = (status: number, { headers }: Api): string | undefined => {
  if (status === 404) return "check --url";
  if (status !== 401) return undefined;
  if (headers["Authorization"] !== undefined) return "check --token: access tokens soon expire";
  return "check --key: a project's key begins with svc_live_ or svc_test_";
};

/** Explains a refusal and what to do about it, with a line for each field that is wrong. */
const explain = (api: Api, { status, answer }: Answered): string => {
  const { data } = Refusal.safeParse(answer);
  if (!data) return `the server answered ${status}, and not as Laurel does: check --url`;
  const { message, reason, details } = data.error;
  const remedy = remedyOf(status, api);
  const what = [String(status), reason, message].filter(Boolean).join(" ") + (remedy ? ` (${remedy})` : "");
  // The message names the only field already.
  const told = details.filter((one) => details.length > 1 || !message.includes(one.message));
  return [what, ...told.map(({ field, message: why }) => `  ${field}: ${why}`)].join("\n");
};

/** `waitMs`: how long the server asks to wait. */
type Answered = { status: number; answer: unknown; waitMs: number | undefined };
type Passing = { passing: string; waitMs?: number | undefined };

/** Parses Retry-After to ms: seconds or an HTTP date. */
export const retryAfterMs = ({ headers }: Response): number | undefined => {
  const value = headers.get("retry-after");
  if (value === null) return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1_000);
  const atMs = Date.parse(value);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - Date.now());
};

const ask = async (api: Api, path: string, body: unknown): Promise<Answered> => {
  const { url, headers, stop, timeoutMs = TIMEOUT_MS } = api;
  const response = await fetch(`${url}/api/v1${path}`, {
    method: body === undefined ? "GET" : "POST",
    // Credentials must be sent to this server and no other.
    redirect: "manual",
    headers: { ...headers, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.any([stop, AbortSignal.timeout(timeoutMs)]),
  });
  const { status } = response;
  const elsewhere = response.headers.get("location");
  if (status >= 300 && status < 400 && elsewhere !== null)
    throw new ApiFailure(`${url} redirects to ${elsewhere}: use that address as --url`);
  const answer: unknown = await response.json().catch(() => undefined);
  return { status, answer, waitMs: retryAfterMs(response) };
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
      return answerOf(api, outcome, shape);
    }
    if (!api.onWaiting) throw new ApiFailure(outcome.passing);
    if (!isAway) api.onWaiting(`waiting: ${outcome.passing}`);
    await delay(outcome.waitMs ?? AGAIN_MS, undefined, { signal: api.stop }).catch(() => undefined);
    throwIfStopped(api);
  }
};

const throwIfStopped = ({ stop }: Api): void => {
  if (stop.aborted) throw new ApiFailure("stopped");
};

/** Returns the answer, or the obstacle, which may be temporary. */
const tryOnce = async (api: Api, path: string, body: unknown): Promise<Answered | Passing> => {
  try {
    const answered = await ask(api, path, body);
    const { status, waitMs } = answered;
    return isTransient(status) ? { passing: explain(api, answered), waitMs } : answered;
  } catch (error) {
    throwIfStopped(api);
    if (error instanceof ApiFailure) throw error;
    if ((error as Error).name === "TimeoutError") return { passing: `${api.url} has not answered in time` };
    return { passing: `no answer from ${api.url}: is the server running?` };
  }
};

const answerOf = <T>(api: Api, answered: Answered, shape: z.ZodType<T>): T => {
  const { data } = shape.safeParse(answered.answer);
  if (answered.status < 300 && data !== undefined) return data;
  throw new ApiFailure(explain(api, answered));
};
