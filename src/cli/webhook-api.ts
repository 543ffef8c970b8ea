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
  /** Told when the server is away, once each time. */
  onAway(reason: string): void;
};

const Refusal = z.object({ error: z.object({ message: z.string(), reason: z.string().optional() }) });

const isPassing = (status: number): boolean => status === 429 || status >= 500;

/** What a refusal says, and what to do about it. */
const explain = (status: number, answer: unknown): string => {
  const { data } = Refusal.safeParse(answer);
  if (!data) return `the server answered ${status}; is it Laurel?`;
  const { message, reason } = data.error;
  return `${status} ${reason ?? ""} ${message}`.replaceAll(/ +/g, " ");
};

const ask = async (
  { url, key, stop }: Api,
  path: string,
  body: unknown,
): Promise<{ status: number; answer: unknown }> => {
  const response = await fetch(`${url}/api/v1${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "X-API-Key": key, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.any([stop, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
  });
  return { status: response.status, answer: await response.json().catch(() => undefined) };
};

/**
 * Asks the API, again and again while the server is away or says so.
 * @param body of a POST; a GET without
 * @throws ApiFailure for a refusal, and when it is stopped
 */
export const askApi = async <T>(api: Api, path: string, shape: z.ZodType<T>, body?: unknown): Promise<T> => {
  let isAway = false;
  for (;;) {
    const outcome = await ask(api, path, body).catch((error: unknown) => ({ error }));
    if (api.stop.aborted) throw new ApiFailure("stopped");
    if (!("error" in outcome) && !isPassing(outcome.status)) {
      const { status, answer } = outcome;
      const { data } = shape.safeParse(answer);
      if (status < 300 && data !== undefined) return data;
      throw new ApiFailure(explain(status, answer));
    }
    if (!isAway)
      api.onAway("error" in outcome ? `no answer from ${api.url}` : explain(outcome.status, outcome.answer));
    isAway = true;
    await delay(AGAIN_MS, undefined, { signal: api.stop }).catch(() => undefined);
    if (api.stop.aborted) throw new ApiFailure("stopped");
  }
};
