/** Bytes kept of an answer's body. */
export const RESPONSE_BODY_MAX = 16 * 1024;
/** For a whole exchange, from the look-up of the name to the last byte that is read, in ms. */
export const SEND_TIMEOUT_MS = 30_000;

export type WebhookRequest = {
  url: string;
  headers: Readonly<Record<string, string>>;
  /** The exact text. */
  body: string;
  timeoutMs: number;
  /** Ends it early; nothing is then known of it. */
  signal?: AbortSignal;
};

/** What became of an attempt. It never rejects: whatever an endpoint does is an answer of this kind. */
export type WebhookOutcome = {
  /** A status from 200 to 299. */
  isSuccess: boolean;
  responseCode: number | null;
  /** At most RESPONSE_BODY_MAX bytes, decoded as UTF-8, without NUL; null where there was no answer. */
  responseBody: string | null;
  durationMs: number;
  /** Why it failed, for the owner of the endpoint; null for a success. */
  error: string | null;
  /** The address may not be asked at all (URL_NOT_ALLOWED). */
  isRefused: boolean;
  /** Seconds that the endpoint asked for with Retry-After; null without. */
  retryAfterSeconds: number | null;
};

/** Speaks to addresses of strangers: guarded against reaching what is not public, and bounded. */
export type WebhookSender = {
  /**
   * Whether an address may be given at all: its text, and the addresses of its name as far as they are found
   * within 3 s. They are looked up and judged at each attempt too.
   * @returns what is wrong with it, as "must start with https://", or undefined
   */
  check(url: string): Promise<string | undefined>;
  send(request: WebhookRequest): Promise<WebhookOutcome>;
  /** Ends idle connections. */
  close(): Promise<void>;
};

/** An outcome without any attempt: what stands in the way is ours, and told to the owner all the same. */
export const notSent = (error: string): WebhookOutcome => ({
  isSuccess: false,
  responseCode: null,
  responseBody: null,
  durationMs: 0,
  error,
  isRefused: false,
  retryAfterSeconds: null,
});
