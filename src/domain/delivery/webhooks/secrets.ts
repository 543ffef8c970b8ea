import { randomBytes } from "node:crypto";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Webhook } from "./webhook.ts";

/** Of a secret that the owner chooses. */
export const SECRET_MIN = 16;
export const SECRET_MAX = 256;
/** The prefix that Standard Webhooks gives secrets; what follows is base64 of the key. */
export const SECRET_PREFIX = "whsec_";
const SECRET_BYTES = 32;
/** Told to the owner of a webhook that cannot be signed for, and to the operator. */
export const SECRET_UNREADABLE = "The secret of the webhook can no longer be read; rotate it";
export const SECRET_LOST = "a webhook's secret cannot be read: is its key in ENCRYPTION_KEYS?";
const HINT_CHARACTERS = 4;
/** How long the old secret may go on signing beside the new one, in seconds. */
export const ROTATION_GRACE_SECONDS_MAX = 7 * 86_400;

/** `whsec_` and 32 random bytes in base64, which receivers of Standard Webhooks take as it is. */
export const newWebhookSecret = (): string => SECRET_PREFIX + randomBytes(SECRET_BYTES).toString("base64");

/**
 * Whether a secret can sign by Standard Webhooks: behind the prefix stands base64 of a key that is no shorter
 * than other secrets are. Else the key would be what a decoder makes of it, which may be nothing at all.
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
 * The secrets that sign at `now`, the present one first.
 * @throws Error when one was sealed under a key that the server no longer has
 */
export const liveSecrets = (secretBox: SecretBox, webhook: Sealed, now: Date): string[] => {
  const { id, secret, previousSecret, previousSecretExpiresAt: until } = webhook;
  const secrets = [secretBox.open(secret, id)];
  if (previousSecret != null && until != null && until > now)
    secrets.push(secretBox.open(previousSecret, id));
  return secrets;
};
