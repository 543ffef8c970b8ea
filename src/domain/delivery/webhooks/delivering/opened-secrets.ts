import type { SecretBox } from "../../../kernel/secret-box.ts";

/** Maximum number of cached decrypted texts. */
const KEPT_MAX = 2_000;

/** Wraps a secret box with a cache: every delivery of a webhook decrypts the same texts. */
export const cacheOpened = (box: SecretBox): SecretBox => {
  const opened = new Map<string, string>();
  return {
    seal: box.seal,
    open: (sealed, context) => {
      const key = `${context} ${sealed}`;
      const known = opened.get(key);
      if (known !== undefined) return known;
      const text = box.open(sealed, context);
      opened.set(key, text);
      const [oldest] = opened.keys();
      if (opened.size > KEPT_MAX && oldest !== undefined) opened.delete(oldest);
      return text;
    },
  };
};
