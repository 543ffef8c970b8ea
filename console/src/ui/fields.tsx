import {
  Button,
  Collapse,
  Fieldset,
  Group,
  MultiSelect,
  PasswordInput,
  Select,
  Stack,
  Switch,
  TagsInput,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import { type Forms, resolve, type Schema } from "../api/forms.ts";
import { keyFor, own, words } from "../format.ts";
import { Icon } from "./icons.tsx";
import {
  type Common,
  commonOf,
  type FieldProps,
  Free,
  Moment,
  optionsOf,
  optionText,
  Reference,
  referenceOf,
  References,
  Remove,
  typeOf,
} from "./values.tsx";
import { Hint } from "./page.tsx";

/** What a browser may fill in of its own. */
const AUTOCOMPLETE: Record<string, string> = {
  currentPassword: "current-password",
  newPassword: "new-password",
};

/** Fields that hold the conditions of a group. */
const GROUPS = /^(all|any|none)$/;

/** A field whose schema is known, with what every input has. */
type Known = FieldProps & { common: Common };

/** Text: a date, a secret, a key of something, or words. */
const StringField = ({ schema, name, value = "", common, onChange }: Known) => {
  const reference = referenceOf(schema, name);
  const set = (text: string) => onChange(text === "" ? undefined : text);
  if (reference) return <Reference {...common} kind={reference} value={value} onChange={set} />;
  if (schema.format === "date-time") return <Moment {...common} value={value} onChange={set} />;
  const input = {
    ...common,
    value: value ?? "",
    onChange: (event: { currentTarget: { value: string } }) => set(event.currentTarget.value),
    placeholder: schema.default == null ? "" : String(schema.default),
  };
  if (/secret|password/i.test(name))
    return <PasswordInput {...input} autoComplete={AUTOCOMPLETE[name] ?? "off"} />;
  const isLong = (schema.maxLength ?? 0) > 1_000 && schema.format !== "uri";
  if (isLong || /description|note|body|certificate/i.test(name))
    return <Textarea {...input} autosize minRows={2} maxRows={12} />;
  return <TextInput {...input} type={schema.format === "date" ? "date" : "text"} autoComplete="off" />;
};

/** Draws one value as its schema describes it. */
export const Field = (given: FieldProps): ReactNode => {
  const schema = resolve(given.schema, given.context.forms);
  const common = commonOf({ ...given, schema });
  const props: Known = { ...given, schema, common, value: given.value ?? undefined };
  const { name, value, onChange, isRequired = false } = props;
  switch (typeOf(schema)) {
    case "enum":
      return (
        <Select
          {...common}
          data={optionsOf(schema)!.map((one) => ({ value: String(one), label: optionText(name, one) }))}
          value={value === undefined ? null : String(value)}
          // The options of a number are numbers.
          onChange={(next) => onChange(optionsOf(schema)!.find((one) => String(one) === next))}
          allowDeselect={false}
          clearable={!isRequired}
          clearButtonProps={{ "aria-label": `Clear ${common.label}` }}
          placeholder={schema.default === undefined ? "" : optionText(name, schema.default)}
        />
      );
    case "boolean": {
      const { required: _always, ...rest } = common;
      return (
        <Switch
          {...rest}
          checked={value ?? schema.default ?? false}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    }
    case "integer":
    case "number":
      return (
        <TextInput
          {...common}
          type="number"
          step={schema.type === "integer" ? 1 : "any"}
          value={value ?? ""}
          onChange={({ currentTarget: { value: text } }) => onChange(text === "" ? undefined : Number(text))}
          placeholder={schema.default === undefined ? "" : String(schema.default)}
        />
      );
    case "string":
      return <StringField {...props} />;
    case "array":
      return <ArrayField {...props} />;
    case "object": {
      const { properties = {}, additionalProperties: items } = schema;
      if (Object.keys(properties).length > 0) return <ObjectField {...props} />;
      if (typeof items === "object" && Object.keys(items).length > 0)
        return <RecordField {...props} items={items} />;
      return <Free {...common} value={value} onChange={onChange} placeholder='{"stars": 3}' />;
    }
    case "any-of":
      return <AnyOf {...props} />;
    default:
      return <Free {...common} value={value} onChange={onChange} />;
  }
};

const About = ({ of: { description } }: { of: Common }) =>
  description && <Hint size="xs">{description}</Hint>;

const Add = (props: { label: string; onClick: () => void; disabled?: boolean }) => (
  <Button
    variant="default"
    size="xs"
    w="fit-content"
    leftSection={<Icon name="plus" size={14} />}
    disabled={props.disabled ?? false}
    onClick={props.onClick}
  >
    {props.label}
  </Button>
);

const ObjectField = ({ common, path, schema, value, isRequired, onChange, context }: Known) => {
  const { label } = common;
  if (value === undefined && !isRequired)
    return (
      <div>
        <Add label={label} onClick={() => onChange({})} />
        <About of={common} />
      </div>
    );
  const legend = (
    <Group gap={4}>
      {label}
      {!isRequired && <Remove label={label} onClick={() => onChange(undefined)} />}
    </Group>
  );
  return (
    <Fieldset legend={legend}>
      <Properties path={path} schema={schema} value={value ?? {}} onChange={onChange} context={context} />
    </Fieldset>
  );
};

export type PropertiesProps = Omit<FieldProps, "name" | "isRequired"> & {
  first?: readonly string[] | undefined;
};

/** The fields of an object: those that are needed, given or named first; the others one click away. */
export const Properties = ({ path, schema, value, onChange, context, first }: PropertiesProps) => {
  const [isOpen, { toggle }] = useDisclosure(false);
  // A field stays where it is while somebody types into it.
  const [begun] = useState(value);
  const { properties = {}, required: needed = [] } = resolve(schema, context.forms);
  const names = Object.keys(properties).filter((name) => path !== "" || !context.hidden.includes(name));
  const required = new Set(needed);
  const pathOf = (name: string) => (path === "" ? name : `${path}.${name}`);
  const isFirst = (name: string) =>
    required.has(name) ||
    first?.includes(name) ||
    (begun[name] ?? undefined) !== undefined ||
    context.errors.some(({ field }) => field.startsWith(pathOf(name)));
  const shown = names.length <= 6 && !first ? names : names.filter(isFirst);
  const rest = names.filter((name) => !shown.includes(name));
  const above = first?.filter((name) => shown.includes(name)) ?? [];
  const order = [...above, ...shown.filter((name) => !above.includes(name))];
  const set = (name: string, next: any) => {
    const { [name]: _old, ...others } = value;
    const changed = next === undefined ? others : { ...value, [name]: next };
    // The key of something new follows its name until somebody writes one.
    const follows = name === "name" && required.has("key") && (value.key ?? "") === keyFor(value.name);
    onChange(follows ? { ...changed, key: keyFor(next) } : changed);
  };
  const draw = (name: string) => {
    const field = properties[name]!;
    // A constant is written by whoever chose the kind.
    if (optionsOf(resolve(field, context.forms))?.length === 1 && required.has(name)) return null;
    return (
      <Field
        key={name}
        name={name}
        path={pathOf(name)}
        schema={field}
        value={value[name]}
        isRequired={required.has(name)}
        context={context}
        onChange={(next) => set(name, next)}
      />
    );
  };
  return (
    <Stack gap="sm">
      {order.map(draw)}
      {rest.length > 0 && (
        <div>
          <Button variant="subtle" size="compact-sm" onClick={toggle} aria-expanded={isOpen}>
            {isOpen ? "Fewer" : `More (${rest.length})`}
          </Button>
          <Collapse expanded={isOpen}>
            <Stack gap="sm" mt="sm">
              {isOpen && rest.map(draw)}
            </Stack>
          </Collapse>
        </div>
      )}
    </Stack>
  );
};

/** Several values with a name over them: each can be removed, and one be added. */
const Several = (props: { common: Common; items: Item[]; add: ReactNode }) => (
  <Fieldset legend={props.common.label}>
    <Stack gap="sm">
      <About of={props.common} />
      {props.items.map(({ label, before, field, onRemove }, index) => (
        <Group key={index} align="flex-start" wrap="nowrap" gap="xs">
          {before}
          <div style={{ flex: 1 }}>
            <Field {...field} isRequired />
          </div>
          <Remove label={label} onClick={onRemove} />
        </Group>
      ))}
      {props.add}
      {props.common.error && (
        <Text size="xs" c="var(--mantine-color-error)">
          {props.common.error}
        </Text>
      )}
    </Stack>
  </Fieldset>
);
type Item = { label: string; before?: ReactNode; field: FieldProps; onRemove: () => void };

const ArrayField = (props: Known) => {
  const { name, path, schema, value = [], isRequired = false, onChange, context, common } = props;
  const items = resolve(schema.items ?? {}, context.forms);
  const set = (next: any[]) => onChange(next.length === 0 && !isRequired ? undefined : next);
  const input = { ...common, value, onChange: set };
  const choices = items.enum?.map((one) => ({ value: one, label: words(one) }));
  if (choices) return <MultiSelect {...input} data={choices} searchable />;
  const type = typeOf(items);
  const reference = referenceOf(items["x-ref"] ? items : schema, name);
  if (type === "string")
    return reference ? <References {...input} kind={reference} /> : <TagsInput {...input} />;
  const setNumbers = (next: string[]) => set(next.map(Number).filter(Number.isFinite));
  if (type === "integer" || type === "number")
    return <TagsInput {...input} value={value.map(String)} onChange={setNumbers} />;
  const one = GROUPS.test(name) ? "Condition" : common.label.replace(/ies$/, "y").replace(/s$/, "");
  return (
    <Several
      common={common}
      items={value.map((item: any, index: number) => ({
        label: `${one} ${index + 1}`,
        field: {
          name: `${one} ${index + 1}`,
          path: `${path}.${index}`,
          schema: items,
          value: item,
          context,
          onChange: (next: any) => set(value.with(index, next ?? {})),
        },
        onRemove: () => set(value.toSpliced(index, 1)),
      }))}
      add={
        <Add
          label={`Add ${one.toLowerCase()}`}
          onClick={() => set([...value, startOf(items, context.forms)])}
        />
      }
    />
  );
};

/** Values by key, such as amounts by currency. */
const RecordField = (props: Known & { items: Schema }) => {
  const { name, path, schema, items, value = {}, isRequired = false, onChange, context, common } = props;
  const kind = referenceOf(schema, name.replace(/ies$/, "y"));
  const set = (next: [string, any][]) =>
    onChange(next.length === 0 && !isRequired ? undefined : Object.fromEntries(next));
  const entries = Object.entries(value);
  const keyInput = (key: string, onKey: (next: string) => void) =>
    kind ? (
      <Reference kind={kind} label="Key" value={key} onChange={onKey} />
    ) : (
      <TextInput label="Key" value={key} onChange={(event) => onKey(event.currentTarget.value)} />
    );
  return (
    <Several
      common={common}
      items={entries.map(([key, item], index) => ({
        label: `${common.label} ${key}`,
        before: keyInput(key, (next) => set(entries.with(index, [next, item]))),
        field: {
          name: "Value",
          path: `${path}.${key}`,
          schema: items,
          value: item,
          context,
          onChange: (next) => set(entries.with(index, [key, next])),
        },
        onRemove: () => set(entries.toSpliced(index, 1)),
      }))}
      add={
        <Add
          label={`Add to ${common.label.toLowerCase()}`}
          disabled={"" in value}
          onClick={() => set([...entries, ["", startOf(items, context.forms)]])}
        />
      }
    />
  );
};

/** What a new value of a schema begins as: with the constants that say its kind. */
export const startOf = (given: Schema, forms: Forms): any => {
  const schema = resolve(given, forms);
  if (schema.default !== undefined) return schema.default;
  const kinds = schema.anyOf ?? schema.oneOf;
  // Of a condition or a group of them: a condition.
  const kind = kinds?.find((one) => resolve(one, forms).oneOf) ?? kinds?.[0];
  if (kind) return startOf(kind, forms);
  const options = optionsOf(schema);
  if (options) return options.length === 1 ? options[0] : undefined;
  if (schema.properties) {
    const begin = (name: string) => startOf(schema.properties![name] ?? {}, forms);
    const entries = (schema.required ?? []).map((name) => [name, begin(name)]);
    return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
  }
  return schema.type === "array" ? [] : undefined;
};

/** The shapes that a value may have; a choice among choices is one choice. */
const kindsOf = (schema: Schema, forms: Forms): Schema[] =>
  (schema.anyOf ?? schema.oneOf ?? [])
    .map((one) => resolve(one, forms))
    .flatMap((one) => (one.anyOf ?? one.oneOf ?? [one]).map((inner) => resolve(inner, forms)));

/** What is there, as a form that changes it begins: of its parts, not everything may be sent. */
export const takenOf = (given: Schema, value: any, forms: Forms, depth = 0): any => {
  const { properties } = resolve(given, forms);
  if (!properties || typeof (value ?? {}) !== "object" || depth > 1) return value;
  const taken = Object.entries(value ?? {}).flatMap(([name, part]) => {
    if (!(name in properties) || part === null) return [];
    const one = takenOf(properties[name]!, part, forms, depth + 1);
    return JSON.stringify(one) === "{}" ? [] : [[name, one]];
  });
  return Object.fromEntries(taken);
};

/** What a change names: what is not as it began, and what must be named. What was cleared is sent as nothing. */
export const changesOf = (given: Schema, begun: any, value: any, forms: Forms): any => {
  const { properties = {}, required = [] } = resolve(given, forms);
  const changed = Object.keys({ ...begun, ...value }).flatMap((name) => {
    const isSame = JSON.stringify(begun[name]) === JSON.stringify(value[name]);
    if (isSame && !required.includes(name)) return [];
    return [[name, value[name] ?? emptyOf(properties[name] ?? {}, forms)]];
  });
  return Object.fromEntries(changed);
};

/** What says that there is no value of a schema any more. */
const emptyOf = (given: Schema, forms: Forms): any => {
  const schema = resolve(given, forms);
  const isNullable = [schema, ...kindsOf(schema, forms)].some(({ nullable }) => nullable);
  return isNullable ? null : (startOf(schema, forms) ?? null);
};

/** The path of the first part that has not the shape which its input needs; what is missing can be filled in. */
export const misfitOf = (given: Schema, value: any, forms: Forms, path = ""): string | undefined => {
  const schema = resolve(given, forms);
  const kinds = kindsOf(schema, forms);
  const chosen = kinds.filter((one) => choiceOf(one, forms)?.is(value));
  const fits = (one: Schema) => misfitOf(one, value, forms, path) === undefined;
  if (kinds.length > 0) return (chosen.length > 0 ? chosen : kinds).some(fits) ? undefined : path;
  const options = optionsOf(schema);
  if (options) return options.includes(value) ? undefined : path;
  const type = typeOf(schema).replace("integer", "number");
  const isList = Array.isArray(value);
  if (type !== "any" && type !== (isList ? "array" : value === null ? "null" : typeof value)) return path;
  const { properties = {}, items, additionalProperties: others } = schema;
  const schemaOf = (name: string): Schema | undefined => {
    if (isList) return items;
    return own(properties, name) ?? (typeof others === "object" ? others : undefined);
  };
  for (const [name, part] of typeof value === "object" ? Object.entries(value ?? {}) : []) {
    const known = schemaOf(name);
    const isOpen = known === undefined || (part === null && !isList);
    const found = isOpen ? undefined : misfitOf(known, part, forms, path === "" ? name : `${path}.${name}`);
    if (found !== undefined) return found;
  }
  return undefined;
};

/** One of several shapes that a value may have, as a person chooses it. */
type Choice = { label: string; schema: Schema; is: (value: any) => boolean };

/** Objects differ by a constant (`type: "grant_xp"`), or by the one field that each of them needs (`all`, `any`). */
const choiceOf = (schema: Schema, forms: Forms): Choice | undefined => {
  const { properties = {}, required = [] } = schema;
  for (const field of required) {
    const options = optionsOf(resolve(properties[field] ?? {}, forms));
    if (options?.length === 1)
      return { label: words(options[0]!), schema, is: (value) => value?.[field] === options[0] };
  }
  const [only, ...more] = required;
  if (schema.type !== "object" || only === undefined || more.length > 0) return undefined;
  return {
    label: words(only),
    schema,
    is: (value) => typeof value === "object" && value !== null && only in value,
  };
};

const AnyOf = ({ common, name, path, schema, value, isRequired = false, onChange, context }: Known) => {
  const { forms } = context;
  const options = kindsOf(schema, forms);
  const choices = options.map((one) => choiceOf(one, forms)).filter((one) => one !== undefined);
  if (choices.length > 0 && choices.length === options.length) {
    const chosen = choices.find((one) => one.is(value));
    const choose = (label: string | null) => {
      const one = choices.find((choice) => choice.label === label);
      const start = one && startOf(one.schema, forms);
      const group = Object.keys(start ?? {}).find((key) => GROUPS.test(key));
      const items = group && one?.schema.properties?.[group]?.items;
      // A group begins with what it held as another kind of group, or with one condition.
      const held = Object.entries(value ?? {}).find(([key]) => GROUPS.test(key))?.[1];
      onChange(items ? { [group]: held ?? [startOf(items, forms)] } : start);
    };
    return (
      <Stack gap="xs">
        <Select
          {...common}
          data={[...new Set(choices.map((one) => one.label))]}
          value={chosen?.label ?? null}
          onChange={choose}
          searchable
          allowDeselect={false}
          clearable={!isRequired}
          clearButtonProps={{ "aria-label": `Clear ${common.label}` }}
        />
        {chosen && <Properties {...{ path, value, onChange, context }} schema={chosen.schema} />}
      </Stack>
    );
  }
  // Of several ways to write the same, such as a day or a moment, the first is drawn.
  const types = new Set(options.map(typeOf));
  const [first] = options;
  if (first && types.size === 1 && !types.has("object"))
    return (
      <Field
        {...{ name, path, value, isRequired, onChange, context }}
        schema={{ ...first, title: common.label, description: schema.description ?? first.description }}
      />
    );
  return <Free {...common} value={value} onChange={onChange} />;
};
