import { ActionIcon, Autocomplete, JsonInput, Select, TagsInput, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Detail, Id } from "../api/client.ts";
import { type Forms, type Schema } from "../api/forms.ts";
import { useAny } from "../api/hooks.ts";
import { zoneName } from "../format.ts";
import { Icon } from "./icons.tsx";

/** Which list holds what a field names, and by which property of its rows. */
export const LISTS: Record<string, { id: Id; by: string; plural?: string }> = {
  currency: { id: "listCurrencies", by: "key", plural: "currencies" },
  badge: { id: "listBadges", by: "key" },
  streak: { id: "listStreaks", by: "key", plural: "streakFreezes" },
  quest: { id: "listQuests", by: "key" },
  adventure: { id: "listAdventures", by: "key" },
  leaderboard: { id: "listLeaderboards", by: "key" },
  reward: { id: "listRewards", by: "key" },
  boost: { id: "listBoosts", by: "key" },
  segment: { id: "listSegments", by: "key" },
  eventType: { id: "listEventTypes", by: "name" },
};

/** What a field refers to: as its schema says, else as its name does (`badgeKey`, `eventTypes`). */
export const referenceOf = (schema: Schema, name: string): string | undefined => {
  const said = schema["x-ref"];
  if (said) return said in LISTS ? said : undefined;
  const stem = name.replace(/Keys?$/, "").replace(/s$/, "");
  const isNamed = /Keys?$/.test(name) || stem === "eventType" || /^(segments?|currency)$/.test(name);
  return isNamed ? Object.keys(LISTS).find((kind) => stem.toLowerCase() === kind.toLowerCase()) : undefined;
};

export type FieldProps = {
  name: string;
  path: string;
  schema: Schema;
  value: any;
  isRequired?: boolean;
  onChange: (value: any) => void;
  context: Context;
};

export type Context = {
  forms: Forms;
  errors: Detail[];
  /** Fields of the first level that are not shown. */
  hidden: readonly string[];
  /** Draws some fields in another way, by path with `*` for indices; undefined: as usual. */
  custom?: ((props: FieldProps) => ReactNode | undefined) | undefined;
};

export const errorAt = ({ errors }: Context, path: string): string | undefined =>
  errors
    .filter(({ field }) => field === path)
    .map(({ message }) => message)
    .join("; ") || undefined;

/** The values that a text may have; a catalogue writes one value as a constant. */
export const optionsOf = (schema: Schema): string[] | undefined =>
  schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);

export const typeOf = (schema: Schema): string => {
  if (optionsOf(schema)) return "enum";
  if (schema.anyOf ?? schema.oneOf) return "any-of";
  return schema.type ?? (schema.properties ? "object" : "any");
};

export type Common = {
  label: string;
  description?: string | undefined;
  error?: string | undefined;
  required?: boolean;
};

/** Any JSON; text is kept while it is not yet valid. */
export const Free = ({
  value,
  onChange,
  placeholder = "a number, text or JSON",
  ...common
}: Common & { value: any; onChange: (value: any) => void; placeholder?: string }) => {
  const [text, setText] = useState(
    value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value),
  );
  const read = (next: string) => {
    setText(next);
    if (next.trim() === "") return onChange(undefined);
    try {
      onChange(JSON.parse(next));
    } catch {
      // A word without quotes is text.
      if (!/^[[{"]/.test(next.trim())) onChange(next);
    }
  };
  return (
    <JsonInput
      {...common}
      value={text}
      onChange={read}
      autosize
      minRows={1}
      maxRows={12}
      classNames={{ input: "mono" }}
      placeholder={placeholder}
      validationError={undefined}
    />
  );
};

/** A moment is typed in the reader's own zone, and sent as UTC. */
export const Moment = ({
  value,
  onChange,
  ...common
}: Common & { value: string; onChange: (value: string) => void }) => {
  const local = (iso: string) => {
    const at = new Date(iso);
    if (Number.isNaN(at.getTime())) return "";
    return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  };
  return (
    <TextInput
      {...common}
      label={`${common.label} (your time; the project's zone is ${zoneName()})`}
      type="datetime-local"
      value={value === "" ? "" : local(value)}
      onChange={(event) => {
        const text = event.currentTarget.value;
        onChange(text === "" ? "" : new Date(text).toISOString());
      }}
    />
  );
};

/** The key of a definition: chosen from those there are, or typed. */
export const Reference = ({
  kind,
  value,
  onChange,
  ...common
}: Common & { kind: string; value: string; onChange: (value: string) => void }) => {
  const keys = useKeys(kind);
  return <Autocomplete {...common} data={keys} value={value} onChange={onChange} limit={50} />;
};

/** Chooses a definition by its key, for what is part of an address. */
export const KeyChoice = (props: {
  kind: string;
  label: string;
  value: string;
  onChange: (value: string) => void;
}) => (
  <Select
    label={props.label}
    data={useKeys(props.kind)}
    value={props.value === "" ? null : props.value}
    onChange={(next) => props.onChange(next ?? "")}
    searchable
    data-autofocus
  />
);

const useKeys = (kind: string): string[] => {
  const { id, by } = LISTS[kind]!;
  const { data } = useAny(id, { query: { limit: 100 } });
  return [...new Set<string>((data?.data ?? []).map((row: any) => row[by]))];
};

export const Remove = ({ label, onClick }: { label: string; onClick: () => void }) => (
  <ActionIcon variant="subtle" color="gray" size="sm" aria-label={`Remove ${label}`} onClick={onClick}>
    <Icon name="trash" size={14} />
  </ActionIcon>
);

export const References = ({
  kind,
  value,
  onChange,
  ...common
}: Common & { kind: string; value: string[]; onChange: (value: string[]) => void }) => (
  <TagsInput {...common} data={useKeys(kind)} value={value} onChange={onChange} />
);
