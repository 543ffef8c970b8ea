import type { SecretBox } from "../../../kernel/secret-box.ts";

/** Opened texts that are kept. */
const KEPT_MAX = 2_000;

/** A box that remembers what it has opened: the same texts, for every delivery of a webhook. */
export const rememberOpened = (box: SecretBox): SecretBox => {
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
