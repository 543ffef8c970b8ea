import assert from "node:assert/strict";
import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";

const IV_BYTES = 12;
const TAG_BYTES = 16;
const KEY_ID_CHARACTERS = 8;

export type SecretBox = {
  /** What begins the texts that it seals, which name the first key. */
  mark: string;
  /** `context` names the row, so that a sealed text cannot be used in another one. */
  seal(plain: string, context: string): string;
  /** @throws Error for a text of another context, of an unknown key, or one that was modified */
  open(sealed: string, context: string): string;
};

/**
 * Encrypts texts at rest: AES-256-GCM as `v1:<key>:<iv>:<tag>:<ciphertext>` with the context as additional
 * data. The first key seals, every key opens. A key may be any text of at least 32 characters; it is hashed
 * with SHA-256.
 */
export const createSecretBox = (texts: readonly string[]): SecretBox => {
  const keys = texts.map((text) => {
    const key = createHash("sha256").update(text).digest();
    return { key, id: createHash("sha256").update(key).digest("hex").slice(0, KEY_ID_CHARACTERS) };
  });
  const [current] = keys;
  assert(current, "at least one key");
  return {
    mark: `v1:${current.id}:`,
    seal: (plain, context) => {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv("aes-256-gcm", current.key, iv, { authTagLength: TAG_BYTES });
      cipher.setAAD(Buffer.from(context));
      const text = Buffer.concat([cipher.update(plain, "utf8"), cipher.final()]);
      const parts = [iv, cipher.getAuthTag(), text].map((part) => part.toString("base64url"));
      return ["v1", current.id, ...parts].join(":");
    },
    open: (sealed, context) => {
      const [version, id, iv = "", tag = "", text = ""] = sealed.split(":");
      const found = keys.find((one) => one.id === id);
      if (version !== "v1" || !found) throw new Error("sealed under a key that is not among ENCRYPTION_KEYS");
      const decipher = createDecipheriv("aes-256-gcm", found.key, Buffer.from(iv, "base64url"), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(Buffer.from(context));
      decipher.setAuthTag(Buffer.from(tag, "base64url"));
      return Buffer.concat([decipher.update(Buffer.from(text, "base64url")), decipher.final()]).toString(
        "utf8",
      );
    },
  };
};
