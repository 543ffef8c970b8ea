import { createHmac } from "node:crypto";
import { SECRET_PREFIX } from "../registration.ts";
import type { WebhookRequest } from "./sender.ts";

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
