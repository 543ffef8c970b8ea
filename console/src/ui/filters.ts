import { useCallback, useMemo } from "react";
import { useSearchParams } from "wouter";

export type Filters = Record<string, string>;

/** What a screen is narrowed down to: kept in its address, so that a link shows the same. Defaults stay out of it. */
export const useFilters = (defaults: Filters = {}): [Filters, (change: Filters) => void] => {
  const [params, setParams] = useSearchParams();
  const text = params.toString();
  const kept = JSON.stringify(defaults);
  const filters = useMemo(
    () => ({ ...(JSON.parse(kept) as Filters), ...Object.fromEntries(new URLSearchParams(text)) }),
    [text, kept],
  );
  const set = useCallback(
    (change: Filters) =>
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          // Another filter begins at its first page.
          if (!("page" in change)) next.delete("page");
          if (!("cursor" in change)) next.delete("cursor");
          const usual = JSON.parse(kept) as Filters;
          for (const [name, value] of Object.entries(change))
            if (value === "" || value === usual[name]) next.delete(name);
            else next.set(name, value);
          return next;
        },
        { replace: !("page" in change || "cursor" in change) },
      ),
    [setParams, kept],
  );
  return [filters, set];
};
