import { randomBytes } from "node:crypto";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Webhook } from "./webhook.ts";

/** Minimum length of a secret chosen by the owner. */
export const SECRET_MIN = 16;
export const SECRET_MAX = 256;
/** The prefix of secrets in Standard Webhooks; base64 of the key follows. */
export const SECRET_PREFIX = "whsec_";
const SECRET_BYTES = 32;
/** Reported to the owner of a webhook that cannot be signed for, and to the operator. */
export const SECRET_UNREADABLE = "The secret of the webhook can no longer be read; rotate it";
export const SECRET_LOST = "a webhook's secret cannot be read: is its key in ENCRYPTION_KEYS?";
const HINT_CHARACTERS = 4;

/**
 * Generates `whsec_` and 32 random bytes in base64, which receivers of Standard Webhooks accept unchanged.
 */
export const newWebhookSecret = (): string => SECRET_PREFIX + randomBytes(SECRET_BYTES).toString("base64");

/**
 * Whether a secret can sign by Standard Webhooks: the prefix is followed by base64 of a key with the minimum
 * length. Otherwise a decoder could turn the key into anything, even an empty one.
 */
export const isSigningSecret = (secret: string): boolean => {
  if (!secret.startsWith(SECRET_PREFIX)) return true;
  const text = secret.slice(SECRET_PREFIX.length);
  const key = Buffer.from(text, "base64");
  return key.length >= SECRET_MIN && key.toString("base64").replace(/=+$/, "") === text.replace(/=+$/, "");
};

export const hintOf = (secret: string): string => secret.slice(-HINT_CHARACTERS);

type Sealed = Pick<Webhook, "id" | "secret" | "previousSecret" | "previousSecretExpiresAt">;

/**
 * Returns the secrets that sign at `now`, the current one first.
 * @throws Error when one was encrypted with a key that the server no longer has
 */
export const liveSecrets = (secretBox: SecretBox, webhook: Sealed, now: Date): string[] => {
  const { id, secret, previousSecret, previousSecretExpiresAt: until } = webhook;
  const secrets = [secretBox.open(secret, id)];
  if (previousSecret != null && until != null && until > now)
    secrets.push(secretBox.open(previousSecret, id));
  return secrets;
};
