import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { UsageError } from "./api-flags.ts";

const TIMEOUT_MS = 30_000;
/** Delay between two attempts while the server is unavailable. */
const AGAIN_MS = 2_000;

/** Ends a command; the message is meant for the person at the terminal. */
export class ApiFailure extends Error {}

/** Runs a command, and returns its exit code: what `run` does, 2 for wrong usage, 1 where the API refused. */
export const exitCodeOf = async (run: () => Promise<number>): Promise<number> => {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof UsageError) && !(error instanceof ApiFailure)) throw error;
    process.stderr.write(`error: ${error.message}\n`);
    return error instanceof UsageError ? error.exitCode : 1;
  }
};

export type Api = {
  /** The server's address, without a path of the API. */
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
  /** What to do about refusals, by status; for a command that knows more than `REMEDIES`. */
  remedies?: Readonly<Record<number, string>>;
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

const remedyOf = (status: number, { headers, remedies }: Api): string | undefined => {
  if (status === 401 && headers["Authorization"] !== undefined)
    return "check --token: access tokens soon expire";
  return { ...REMEDIES, ...remedies }[status];
};
const REMEDIES: Readonly<Record<number, string>> = {
  401: "check --key: a project's key begins with svc_live_ or svc_test_",
  404: "check --url",
};

/** Explains a refusal and what to do about it, with a line for each field that is wrong. */
const explain = (api: Api, { status, answer }: Answered): string => {
  const { data } = Refusal.safeParse(answer);
  const remedy = remedyOf(status, api);
  if (!data) return `the server answered ${status}, and not as Laurel does: ${remedy ?? "check --url"}`;
  const { message, reason, details } = data.error;
  const what = [String(status), reason, message].filter(Boolean).join(" ") + (remedy ? ` (${remedy})` : "");
  // The message names the only field already.
  const told = details.filter((one) => details.length > 1 || !message.includes(one.message));
  return [what, ...told.map(({ field, message: why }) => `  ${field}: ${why}`)].join("\n");
};

/** `waitMs`: how long the server asks to wait. */
type Answered = { status: number; answer: unknown; waitMs: number | undefined };
/** What may pass; `isUnknown` where the server may have done what it was asked for. */
export type Passing = { passing: string; waitMs?: number | undefined; isUnknown: boolean };

/** Parses Retry-After to ms: seconds or an HTTP date. */
const retryAfterMs = ({ headers }: Response): number | undefined => {
  const value = headers.get("retry-after");
  if (value === null) return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1_000);
  const atMs = Date.parse(value);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - Date.now());
};

const ask = async (api: Api, path: string, body: string | undefined): Promise<Answered> => {
  const { url, headers, stop, timeoutMs = TIMEOUT_MS } = api;
  const response = await fetch(`${url}/api/v1${path}`, {
    method: body === undefined ? "GET" : "POST",
    // Credentials must be sent to this server and no other.
    redirect: "manual",
    headers: { ...headers, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    ...(body === undefined ? {} : { body }),
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
  const text = body === undefined ? undefined : JSON.stringify(body);
  for (let isAway = false; ; isAway = true) {
    const outcome = await tryOnce(api, path, text);
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

/** Errors that guarantee that nothing was sent. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);
/** Answers of a server that has done nothing. */
const REFUSED = new Set([429, 503]);

/**
 * Asks once. @returns the answer, or the obstacle, which may be temporary
 * @param body the JSON of a POST; without it a GET
 * @throws ApiFailure for a redirection, and when it is stopped
 */
export const tryOnce = async (
  api: Api,
  path: string,
  body: string | undefined,
): Promise<Answered | Passing> => {
  try {
    const answered = await ask(api, path, body);
    const { status, waitMs } = answered;
    if (!isTransient(status)) return answered;
    return { passing: explain(api, answered), waitMs, isUnknown: !REFUSED.has(status) };
  } catch (error) {
    throwIfStopped(api);
    if (error instanceof ApiFailure) throw error;
    const { name, cause } = error as Error & { cause?: { code?: string } };
    if (name === "TimeoutError") return { passing: `${api.url} has not answered in time`, isUnknown: true };
    const isUnknown = !NOT_SENT.has(cause?.code ?? "");
    return { passing: `no answer from ${api.url}: is the server running?`, isUnknown };
  }
};

/** Reads an answer. @throws ApiFailure for a refusal */
export const answerOf = <T>(api: Api, answered: Answered, shape: z.ZodType<T>): T => {
  const { data } = shape.safeParse(answered.answer);
  if (answered.status < 300 && data !== undefined) return data;
  throw new ApiFailure(explain(api, answered));
};
