import { retryAfterMs } from "./call-api.ts";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";

/** Ends the import; the message is meant for the person at the terminal. */
export class ImportFailure extends Error {}

export type Verdict = "accepted" | "skipped" | "rejected";
export type ImportedEvent = { verdict: Verdict; message: string };

export type RetryTimes = {
  /** Maximum number of attempts per batch. */
  attempts: number;
  /** The first delay; it doubles up to `maxDelayMs`. */
  baseDelayMs: number;
  maxDelayMs: number;
};

/** About four minutes. */
export const RETRY_TIMES: RetryTimes = { attempts: 12, baseDelayMs: 500, maxDelayMs: 30_000 };

/** Maximum delay that a server may request; beyond it the import stops and can be resumed. */
const RETRY_AFTER_MAX_MS = 15 * 60_000;
/** Maximum number of attempts per batch when the server itself requests the delays. */
const OBEDIENT_ATTEMPTS = 60;
const REQUEST_TIMEOUT_MS = 60_000;

export type BatchClientOptions = {
  /** The server's address, without a path of the API. */
  url: string;
  key: string;
  retry: RetryTimes;
  /** Ends delays between attempts; requests in progress complete. */
  stop: AbortSignal;
  /** Aborts everything. */
  kill: AbortSignal;
  /** Called before a delay. */
  onWait(reason: string, waitMs: number): void;
};

const Answer = z.object({
  results: z.array(
    z.object({ status: z.string(), skipped: z.boolean().optional(), message: z.string().nullish() }),
  ),
});

type Again = { kind: "again"; reason: string; waitMs: number | undefined; isUnknown: boolean };
type Outcome = { kind: "done"; results: ImportedEvent[] } | { kind: "too large" } | Again;

/** Results in the order of the events; `isRepeated` when an earlier attempt may have stored them already. */
export type BatchResult = { results: ImportedEvent[]; isRepeated: boolean };
export type BatchClient = (events: readonly string[]) => Promise<BatchResult>;

/**
 * Creates the function that posts events (JSON texts) and returns one result for each, in order. Network
 * errors, 429 and 5xx are retried; a batch that is too large for a proxy is split in half.
 * @throws ImportFailure when a retry would not help, or has not
 */
export const createBatchClient = (options: BatchClientOptions): BatchClient => {
  const sendAll: BatchClient = async (events) => {
    let isRepeated = false;
    for (let attempt = 1; ; attempt++) {
      const outcome = await post(options, events);
      if (outcome.kind === "done") return { results: outcome.results, isRepeated };
      if (outcome.kind === "too large") return sendHalves(events);
      isRepeated ||= outcome.isUnknown;
      await pause(options, outcome, attempt);
    }
  };
  const sendHalves: BatchClient = async (events) => {
    if (events.length === 1) {
      const message = "413: the server, or a proxy before it, does not take a request of this size";
      return { results: [{ verdict: "rejected", message }], isRepeated: false };
    }
    const middle = Math.ceil(events.length / 2);
    const first = await sendAll(events.slice(0, middle));
    const second = await sendAll(events.slice(middle));
    return {
      results: [...first.results, ...second.results],
      isRepeated: first.isRepeated || second.isRepeated,
    };
  };
  return sendAll;
};

const pause = async (
  { retry, stop, onWait }: BatchClientOptions,
  again: Again,
  attempt: number,
): Promise<void> => {
  const limit = again.waitMs === undefined ? retry.attempts : OBEDIENT_ATTEMPTS;
  if (attempt >= limit) throw new ImportFailure(`gave up after ${attempt} attempts: ${again.reason}`);
  if (again.waitMs !== undefined && again.waitMs > RETRY_AFTER_MAX_MS) {
    const minutes = Math.ceil(again.waitMs / 60_000);
    throw new ImportFailure(`${again.reason}; the server asks to retry in ${minutes} minutes`);
  }
  const backoffMs = Math.min(retry.maxDelayMs, retry.baseDelayMs * 2 ** (attempt - 1));
  const waitMs = again.waitMs ?? Math.round(backoffMs * (0.75 + Math.random() / 2));
  onWait(again.reason, waitMs);
  await delay(waitMs, undefined, { signal: stop });
};

const post = async (options: BatchClientOptions, events: readonly string[]): Promise<Outcome> => {
  const { url, key, kill } = options;
  try {
    const response = await fetch(`${url}/api/v1/events/batch`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json", "x-api-key": key },
      body: `{"events":[${events.join(",")}]}`,
      redirect: "manual",
      signal: AbortSignal.any([kill, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
    });
    const text = await response.text();
    return readAnswer(response, text, { url, expected: events.length });
  } catch (error) {
    if (error instanceof ImportFailure || kill.aborted) throw error;
    return noAnswer(url, error);
  }
};

/** Errors that guarantee that nothing was sent. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

const noAnswer = (url: string, error: unknown): Again => {
  const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } };
  const code = cause?.code ?? "";
  const why =
    name === "TimeoutError"
      ? `no answer within ${REQUEST_TIMEOUT_MS / 1_000} s`
      : code || cause?.message || message;
  return { kind: "again", reason: `${url}: ${why}`, waitMs: undefined, isUnknown: !NOT_SENT.has(code) };
};

const readAnswer = (
  response: Response,
  text: string,
  { url, expected }: { url: string; expected: number },
): Outcome => {
  const { status } = response;
  if (status === 413) return { kind: "too large" };
  if (status === 429 || status >= 500) {
    const reason = `${status}: ${messageOf(text)}`;
    return {
      kind: "again",
      reason,
      waitMs: retryAfterMs(response),
      isUnknown: status !== 429 && status !== 503,
    };
  }
  if (status !== 200) throw new ImportFailure(refusal(response, text, url));
  const answer = Answer.safeParse(parse(text));
  if (!answer.success) throw new ImportFailure(`${url} does not answer like Laurel: is this its address?`);
  const { results } = answer.data;
  if (results.length !== expected) {
    throw new ImportFailure(
      `${url} answered ${results.length} results for ${expected} events: is this Laurel?`,
    );
  }
  return {
    kind: "done",
    results: results.map(({ status: state, skipped, message }) => ({
      verdict: verdictOf(state, skipped === true),
      message: message ?? state,
    })),
  };
};

const verdictOf = (status: string, isSkipped: boolean): Verdict => {
  if (isSkipped || status === "DUPLICATE") return "skipped";
  return status === "REJECTED" ? "rejected" : "accepted";
};

const HINTS: Record<number, string> = {
  400: "the server refused the whole request",
  401: "the key was not accepted: check --key (a project key begins with svc_live_ or svc_test_)",
  402: "the plan's event quota does not cover this batch; nothing of it was stored",
  403: "the key may not send events: it needs the scope events:write, and its project must be active",
  404: "there is no Laurel API at this address: check --url",
};

const refusal = (response: Response, text: string, url: string): string => {
  const { status } = response;
  if (status >= 300 && status < 400) {
    const location = response.headers.get("location") ?? "another address";
    return `${url} redirects to ${location}: give that address as --url`;
  }
  // A 404 in Laurel's own format comes from Laurel.
  const isOurs = ErrorBody.safeParse(parse(text)).success;
  const hint = status === 404 && isOurs ? undefined : HINTS[status];
  return `${status}: ${messageOf(text)}${hint === undefined ? "" : ` (${hint})`}`;
};

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const ErrorBody = z.object({ error: z.object({ message: z.string(), requestId: z.string().optional() }) });

/** Returns the message of an error response, shortened to one line. */
const messageOf = (text: string): string => {
  const body = ErrorBody.safeParse(parse(text));
  if (!body.success) return text.trim().replaceAll(/\s+/g, " ").slice(0, 200) || "no message";
  const { message, requestId } = body.data.error;
  return requestId === undefined ? message : `${message} [request ${requestId}]`;
};
