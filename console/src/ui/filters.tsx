import { SegmentedControl } from "@mantine/core";
import { useCallback, useContext, useMemo } from "react";
import { useSearchParams } from "wouter";
import { ButtonSize } from "./page.tsx";

export type Filters = Record<string, string>;

/** What each filter is without a choice: a text; or the first of those values that it may have. */
type Usual = Record<string, string | readonly string[]>;

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
          const usual = JSON.parse(kept) as Usual;
          // Another filter begins at its first page.
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

type OneOfProps<T extends Record<string, string>> = {
  label: string;
  /** The words of each value. */
  of: T;
  value: string | undefined;
  onChange: (value: keyof T & string) => void;
};

/** One of a few values, all of which are seen. */
export const OneOf = <T extends Record<string, string>>({
  label,
  of,
  value = "",
  onChange,
}: OneOfProps<T>) => (
  <SegmentedControl
    data={Object.entries(of).map(([one, text]) => ({ value: one, label: text }))}
    value={value}
    onChange={onChange}
    size={useContext(ButtonSize)}
    w="fit-content"
    aria-label={label}
  />
);
