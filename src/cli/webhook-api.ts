import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";

const REQUEST_TIMEOUT_MS = 30_000;
/** Between two tries while the server is away. */
const AGAIN_MS = 2_000;

/** Ends a command; the message is meant for the person at the terminal. */
export class ApiFailure extends Error {}

export type Api = {
  /** Without a path of the API. */
  url: string;
  key: string;
  stop: AbortSignal;
  /** Waits for a server that is away, and is told so each time it goes and comes; without it a call fails. */
  onWaiting?: (note: string) => void;
};

const Refusal = z.object({ error: z.object({ message: z.string(), reason: z.string().optional() }) });

const isPassing = (status: number): boolean => status === 429 || status >= 500;

/** What to do about a refusal. */
const REMEDIES: Partial<Record<number, string>> = {
  401: "check --key: a project's key begins with svc_live_ or svc_test_",
  404: "check --url",
};

/** What a refusal says, and what to do about it. */
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
    // The key is for this server and no other.
    redirect: "manual",
    headers: { "X-API-Key": key, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.any([stop, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
  });
  const { status } = response;
  const elsewhere = response.headers.get("location");
  if (status >= 300 && status < 400 && elsewhere !== null)
    throw new ApiFailure(`${url} redirects to ${elsewhere}: give the address there as --url`);
  return { status, answer: await response.json().catch(() => undefined) };
};

/**
 * Asks the API; with `onWaiting` again and again while the server is away or says so.
 * @param body of a POST; a GET without
 * @throws ApiFailure for a refusal, and when it is stopped
 */
export const askApi = async <T>(api: Api, path: string, shape: z.ZodType<T>, body?: unknown): Promise<T> => {
  const { stop, onWaiting } = api;
  for (let isAway = false; ; isAway = true) {
    const outcome = await ask(api, path, body).catch((error: unknown) => ({ error }));
    if (stop.aborted) throw new ApiFailure("stopped");
    if ("error" in outcome && outcome.error instanceof ApiFailure) throw outcome.error;
    const problem = passingProblem(api, outcome);
    if (problem === undefined) {
      if (isAway) onWaiting?.("the server is back");
      return answerOf(outcome as Answered, shape);
    }
    if (!onWaiting) throw new ApiFailure(problem);
    if (!isAway) onWaiting(`waiting: ${problem}`);
    await delay(AGAIN_MS, undefined, { signal: stop }).catch(() => undefined);
    if (stop.aborted) throw new ApiFailure("stopped");
  }
};

/** What may be over after a while; undefined for an answer that is one. */
const passingProblem = ({ url }: Api, outcome: Answered | { error: unknown }): string | undefined => {
  if ("error" in outcome) return `no answer from ${url}: is the server running?`;
  return isPassing(outcome.status) ? explain(outcome.status, outcome.answer) : undefined;
};

const answerOf = <T>({ status, answer }: Answered, shape: z.ZodType<T>): T => {
  const { data } = shape.safeParse(answer);
  if (status < 300 && data !== undefined) return data;
  throw new ApiFailure(explain(status, answer));
};
