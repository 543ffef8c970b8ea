import type { SecretBox } from "../../../kernel/secret-box.ts";
import { createSizedCache } from "../../../kernel/sized-cache.ts";

/** Maximum number of cached decrypted texts. */
const KEPT_MAX = 2_000;

/** Wraps a secret box with a cache: every delivery of a webhook decrypts the same texts. */
export const cacheOpened = (box: SecretBox): SecretBox => {
  const opened = createSizedCache<string>({ items: KEPT_MAX });
  return {
    mark: box.mark,
    seal: box.seal,
    open: (sealed, context) => {
      const key = `${context} ${sealed}`;
      const known = opened.get(key);
      if (known !== undefined) return known;
      return opened.keep(key, box.open(sealed, context), { owner: context });
    },
  };
};
