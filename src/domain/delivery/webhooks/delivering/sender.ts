import { createHmac } from "node:crypto";
import { SECRET_PREFIX } from "../registration.ts";

/** One webhook's delivery of one event, to be signed. */
export type Signable = {
  deliveryId: string;
  eventId: string;
  eventType: string;
  /** From 1. */
  attempt: number;
  /** The exact text. */
  body: string;
};

/**
 * Returns the key of a secret by Standard Webhooks: base64 after `whsec_`; any other text is used as UTF-8.
 */
const keyOf = (secret: string): Buffer =>
  secret.startsWith(SECRET_PREFIX)
    ? Buffer.from(secret.slice(SECRET_PREFIX.length), "base64")
    : Buffer.from(secret);

const sign = (key: Buffer | string, encoding: "hex" | "base64", ...parts: readonly string[]): string => {
  const hmac = createHmac("sha256", key);
  for (const part of parts) hmac.update(part);
  return hmac.digest(encoding);
};

/**
 * Returns the headers that authenticate a body: that of the specification, with the current secret, and those
 * of Standard Webhooks, with a signature by each valid secret.
 * @param secrets the current one first
 */
export const signatureHeaders = (
  { eventId, body }: Pick<Signable, "eventId" | "body">,
  secrets: readonly string[],
  at: Date,
): Record<string, string> => {
  const timestamp = String(Math.floor(at.getTime() / 1_000));
  const head = `${eventId}.${timestamp}.`;
  return {
    "X-Service-Signature": `sha256=${sign(secrets[0]!, "hex", body)}`,
    "webhook-id": eventId,
    "webhook-timestamp": timestamp,
    "webhook-signature": secrets.map((secret) => `v1,${sign(keyOf(secret), "base64", head, body)}`).join(" "),
  };
};

/**
 * Builds the request of an attempt at `at`, without its time limit.
 * @param secrets the valid ones (liveSecrets), the current one first
 * @param version of Laurel
 */
export const signedRequest = (
  { url, secrets, version }: { url: string; secrets: readonly string[]; version: string },
  signable: Signable,
  at: Date,
): Pick<WebhookRequest, "url" | "headers" | "body"> => ({
  url,
  headers: {
    "Content-Type": "application/json",
    "User-Agent": `Laurel-Webhooks/${version}`,
    "X-Service-Event": signable.eventType,
    "X-Service-Delivery": signable.deliveryId,
    "X-Service-Attempt": String(signable.attempt),
    ...signatureHeaders(signable, secrets, at),
  },
  body: signable.body,
});

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
