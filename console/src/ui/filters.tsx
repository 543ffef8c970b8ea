import { SegmentedControl, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import type { Id } from "../api/client.ts";
import { resolve, type Schema, useForms } from "../api/forms.ts";
import { words } from "../format.ts";
import { ButtonSize } from "./page.tsx";
import { optionText, Reference, referenceOf, References } from "./values.tsx";

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

/** The filters of a list or a report, drawn from the parameters of its operation. */
export const useListFilters = (
  id: Id,
  names: readonly string[],
  defaults: Filters = {},
  prefix = "",
): [chosen: Filters, choose: (change: Filters) => void, bar: ReactNode] => {
  const forms = useForms();
  const fields = names.map((name) => {
    const { schema = {} } = forms?.queries[id]?.find((one) => one.name === name) ?? {};
    return { name, schema: forms ? resolve(schema, forms) : schema };
  });
  const usual = fields.map(({ name, schema }) => {
    const options = choicesOf(schema);
    return [name, options ? [defaults[name] ?? "", ...options] : (defaults[name] ?? "")];
  });
  const [chosen, choose] = useFilters(Object.fromEntries(usual), prefix);
  const bar = fields.map((field) => (
    <FilterField
      key={field.name}
      {...field}
      value={chosen[field.name] ?? ""}
      onChange={(value) => choose({ ...RIVALS[field.name], [field.name]: value })}
    />
  ));
  return [chosen, choose, bar];
};

/** Filters that go when another is set: a range is named, or its days are. */
const RIVALS: Record<string, Filters> = {
  period: { from: "", to: "" },
  from: { period: "" },
  to: { period: "" },
};

/** The values to choose from; a comparison with a range of one's own needs more than a choice. */
const choicesOf = ({ enum: known, type }: Schema): string[] | undefined =>
  known?.filter((one) => one !== "custom") ?? (type === "boolean" ? ["true", "false"] : undefined);

type FieldProps = { name: string; schema: Schema; value: string; onChange: (value: string) => void };

const FilterField = ({ name, schema, value, onChange }: FieldProps) => {
  const [text, setText] = useState(value);
  const [last, setLast] = useState(value);
  if (value !== last) {
    setLast(value);
    setText(value);
  }
  const send = useDebouncedCallback(onChange, 300);
  const write = (next: string) => {
    setText(next);
    send(next);
  };
  const options = choicesOf(schema);
  const usual = schema.default === undefined ? "" : optionText(name, schema.default);
  const common = { label: words(name), title: schema.description ?? "", size: "xs", placeholder: usual };
  const source = { kind: referenceOf(schema, name), known: schema["x-suggest"] };
  if (options)
    return (
      <Select
        {...common}
        data={options.map((one) => ({ value: one, label: optionText(name, one) }))}
        value={value === "" ? null : value}
        onChange={(next) => onChange(next ?? "")}
        clearable
        clearButtonProps={{ "aria-label": `Clear ${common.label}` }}
        placeholder={usual || (/^(sort|order)$/.test(name) ? "As usual" : "Any")}
        w={150}
      />
    );
  if (schema.anyOf?.some(({ type }) => type === "array"))
    return (
      <References
        {...common}
        {...source}
        value={value.split(",").filter(Boolean)}
        onChange={(next) => onChange(next.join(","))}
        miw={165}
        // A funnel may ask for the same twice.
        allowDuplicates={name === "steps"}
      />
    );
  if (source.kind ?? source.known)
    return <Reference {...common} {...source} value={text} onChange={write} w={165} />;
  const isDate = name === "from" || name === "to";
  return (
    <TextInput
      {...common}
      type={isDate ? "date" : "text"}
      value={text}
      onChange={(event) => write(event.currentTarget.value)}
      w={isDate ? 140 : 165}
    />
  );
};
