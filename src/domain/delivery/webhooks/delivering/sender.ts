/** Maximum bytes kept of a response's body. */
export const RESPONSE_BODY_MAX = 16 * 1024;
/** Time limit of a whole exchange, from the look-up of the name to the last byte that is read, in ms. */
export const SEND_TIMEOUT_MS = 30_000;

export type WebhookRequest = {
  url: string;
  headers: Readonly<Record<string, string>>;
  /** The exact text. */
  body: string;
  timeoutMs: number;
  /** Aborts the attempt; its outcome is then unknown. */
  signal?: AbortSignal;
};

/** Outcome of an attempt. Sending never rejects: any behaviour of an endpoint is an outcome. */
export type WebhookOutcome = {
  /** A status from 200 to 299. */
  isSuccess: boolean;
  responseCode: number | null;
  /** At most RESPONSE_BODY_MAX bytes, decoded as UTF-8, without NUL; null without a response. */
  responseBody: string | null;
  durationMs: number;
  /** Why it failed, for the owner of the endpoint; null for a success. */
  error: string | null;
  /** Whether requests to the address are forbidden (URL_NOT_ALLOWED). */
  isRefused: boolean;
  /** Seconds requested by the endpoint's Retry-After; null without. */
  retryAfterSeconds: number | null;
};

/** Sends requests to foreign addresses: guarded against reaching non-public ones, and bounded. */
export type WebhookSender = {
  /**
   * Checks whether an address may be registered: its text, and the addresses of its name as far as they are
   * found within 3 s. They are looked up and checked at each attempt too.
   * @returns the problem, as "must start with https://", or undefined
   */
  check(url: string): Promise<string | undefined>;
  send(request: WebhookRequest): Promise<WebhookOutcome>;
  /** Ends idle connections. */
  close(): Promise<void>;
};

/** An outcome without any attempt: the cause is ours, but reported to the owner all the same. */
export const notSent = (error: string): WebhookOutcome => ({
  isSuccess: false,
  responseCode: null,
  responseBody: null,
  durationMs: 0,
  error,
  isRefused: false,
  retryAfterSeconds: null,
});
