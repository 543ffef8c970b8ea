import { ActionIcon, Autocomplete, Code, MultiSelect, TagsInput, Textarea, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { type Detail, operation } from "../api/client.ts";
import { type Forms, type Schema } from "../api/forms.ts";
import { useAny } from "../api/hooks.ts";
import { dayName, words, zoneName } from "../format.ts";
import { Icon } from "./icons.tsx";

/** What fields name by its key, and an operation lists. */
const KINDS = "currency badge streak quest adventure leaderboard reward boost segment eventType".split(" ");

/** What a field refers to: as its schema says, else as its name does (`badgeKey`, `eventTypes`). */
export const referenceOf = (schema: Schema, name: string): string | undefined => {
  const said = schema["x-ref"];
  if (said) return KINDS.find((kind) => kind === said);
  if (name === "streakFreezes") return "streak";
  if (/^(userId|breakGlassUserId|mailTo)$/.test(name)) return "member";
  const stem = name.replace(/Keys?$/, "").replace(/s$/, "");
  const isNamed = /Keys?$/.test(name) || stem === "eventType" || /^(segments?|currency)$/.test(name);
  return isNamed ? KINDS.find((kind) => stem.toLowerCase() === kind.toLowerCase()) : undefined;
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

type Context = {
  forms: Forms;
  errors: Detail[];
  /** Fields of the first level that are not shown. */
  hidden: readonly string[];
};

const errorAt = ({ errors }: Context, path: string): string | undefined =>
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

/** What every input has: its label, what it is for, and what is wrong with it. */
export type Common = {
  label: string;
  description?: ReactNode;
  error?: string | undefined;
  required?: boolean;
};

type Valued<V> = Common & { value: V; onChange: (value: V) => void };

/** A text of the API, in which backticks stand around what is code. */
const prose = (text = ""): ReactNode =>
  text.split("`").map((part, index) => (index % 2 === 1 ? <Code key={index}>{part}</Code> : part));

export const commonOf = ({ name, path, schema, isRequired = false, context }: FieldProps) => ({
  label: schema.title ?? words(name),
  description: schema.description && prose(schema.description),
  error: errorAt(context, path),
  required: isRequired,
  "data-path": path,
});

/** 2024 began with a Monday. */
const weekday = (number: number): string => dayName(`2024-01-0${number}`);

/** One of several values in words; the API counts the days of a week. */
export const optionText = (name: string, value: unknown): string => {
  if (name === "weekStartsOn") return weekday(Number(value));
  if (name === "compare" && value === "none") return "Nothing";
  return name === "period" && value === "all" ? "All time" : words(String(value));
};

/** Any JSON; text is kept while it is not yet valid. */
export const Free = ({
  value,
  onChange,
  placeholder = "a number, text or JSON",
  ...common
}: Valued<any> & { placeholder?: string }) => {
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
    <Textarea
      {...common}
      value={text}
      onChange={(event) => read(event.currentTarget.value)}
      autosize
      minRows={1}
      maxRows={12}
      classNames={{ input: "mono" }}
      placeholder={placeholder}
    />
  );
};

/** A moment is typed in the reader's own zone, and sent as UTC. */
export const Moment = ({ value, onChange, ...common }: Valued<string>) => {
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

type Source = {
  /** The kind of definition, of which the keys are offered. */
  kind?: string | undefined;
  /** What is offered in place of keys. */
  known?: string[] | undefined;
};
type Box = { size?: string; placeholder?: string; title?: string; w?: number; miw?: number };

/** The key of a definition: chosen from those there are, or typed; of a member, who has none, the name is chosen. */
export const Reference = ({ kind, known, ...input }: Valued<string> & Source & Box) => {
  const data = useKeys(kind, known);
  if (kind !== "member") return <Autocomplete {...input} data={data} limit={50} />;
  const { value, onChange } = input;
  const set = (next: string[]) => onChange(next.at(-1) ?? "");
  return <MultiSelect {...input} data={data} value={value ? [value] : []} onChange={set} searchable />;
};

type ListBox = Valued<string[]> & Source & Box & { allowDuplicates?: boolean };

export const References = ({ kind, known, ...input }: ListBox) => {
  const data = useKeys(kind, known);
  if (kind === "member") return <MultiSelect {...input} data={data} searchable />;
  return <TagsInput {...input} data={data} limit={50} />;
};

/** The keys of all definitions of a kind. */
const useKeys = (kind: string | undefined, known: string[] = []): any[] => {
  const id = operation("list", `${kind}s`.replace(/ys$/, "ies"));
  const { data } = useAny(id, { query: { limit: 100 } }, { enabled: kind !== undefined });
  const nameOf = ({ key, name, userId: value }: any) => (value ? { value, label: name } : (key ?? name));
  return [...new Set([...known, ...(data?.data ?? []).map(nameOf)])];
};

export const Remove = ({ label, onClick }: { label: string; onClick: () => void }) => (
  <ActionIcon variant="subtle" color="gray" size="sm" aria-label={`Remove ${label}`} onClick={onClick}>
    <Icon name="trash" size={14} />
  </ActionIcon>
);
