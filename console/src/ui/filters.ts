import { useCallback, useMemo } from "react";
import { useSearchParams } from "wouter";

export type Filters = Record<string, string>;

/** What each filter is without a choice: a text; or the first of those values that it may have. */
export type Usual = Record<string, string | readonly string[]>;

/** What a screen is narrowed down to: kept in its address, so that a link shows the same. Defaults stay out of it. */
export const useFilters = (
  defaults: Usual = {},
  /** Before the names of a second list of a screen. */
  prefix = "",
): [Filters, (change: Filters) => void] => {
  const [params, setParams] = useSearchParams();
  const text = params.toString();
  const kept = JSON.stringify(defaults);
  const filters = useMemo(() => {
    const usual = Object.entries(JSON.parse(kept) as Usual);
    const found: Filters = Object.fromEntries(usual.map(([name, one]) => [name, [one].flat()[0] ?? ""]));
    for (const [key, value] of new URLSearchParams(text)) {
      const name = key.slice(prefix.length);
      const one = usual.find(([known]) => known === name)?.[1];
      // Addresses may be written by hand: what cannot be chosen counts as not given.
      if (key.startsWith(prefix) && (!Array.isArray(one) || one.includes(value))) found[name] = value;
    }
    return found;
  }, [text, kept, prefix]);
  const set = useCallback(
    (change: Filters) =>
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          // Another filter begins at its first page.
          const usual = JSON.parse(kept) as Usual;
          for (const [name, value] of Object.entries({ page: "", cursor: "", ...change }))
            if (value === "" || value === [usual[name]].flat()[0]) next.delete(prefix + name);
            else next.set(prefix + name, value);
          return next;
        },
        { replace: !("page" in change || "cursor" in change) },
      ),
    [setParams, kept, prefix],
  );
  return [filters, set];
};
