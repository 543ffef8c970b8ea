import {
  Button,
  Collapse,
  Fieldset,
  Group,
  MultiSelect,
  NumberInput,
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
import { type ReactNode } from "react";
import { type Forms, resolve, type Schema } from "../api/forms.ts";
import { keyFor, words } from "../format.ts";
import { Icon } from "./icons.tsx";
import {
  Free,
  Moment,
  Reference,
  References,
  LISTS,
  Remove,
  type FieldProps,
  optionsOf,
  typeOf,
  referenceOf,
  errorAt,
  type Common,
} from "./values.tsx";

/** Fields that hold the conditions of a group. */
const GROUPS = /^(all|any|none)$/;

/** Text: a date, a secret, a key of something, or words. */
const StringField = ({ schema, name, value, common, onChange: clear }: FieldProps & { common: Common }) => {
  const reference = referenceOf(schema, name);
  if (reference) return <Reference {...common} kind={reference} value={value ?? ""} onChange={clear} />;
  if (schema.format === "date-time") return <Moment {...common} value={value ?? ""} onChange={clear} />;
  if (/secret|password/i.test(name))
    return (
      <PasswordInput
        {...common}
        value={value ?? ""}
        onChange={(event) => clear(event.currentTarget.value)}
        autoComplete={/new/i.test(name) ? "new-password" : "off"}
      />
    );
  if (
    ((schema.maxLength ?? 0) > 1_000 && schema.format !== "uri") ||
    /description|note|body|certificate/i.test(name)
  )
    return (
      <Textarea
        {...common}
        value={value ?? ""}
        onChange={(event) => clear(event.currentTarget.value)}
        autosize
        minRows={2}
        maxRows={12}
      />
    );
  return (
    <TextInput
      {...common}
      type={schema.format === "date" ? "date" : "text"}
      value={value ?? ""}
      onChange={(event) => clear(event.currentTarget.value)}
      placeholder={schema.default == null ? "" : String(schema.default)}
      autoComplete="off"
    />
  );
};

/** Draws one value as its schema describes it. */
export const Field = (props: FieldProps): ReactNode => {
  const { context, name, path, onChange, isRequired = false } = props;
  const drawn = context.custom?.(props);
  if (drawn !== undefined) return drawn;
  const schema = resolve(props.schema, context.forms);
  const common = {
    label: schema.title ?? words(name),
    description: schema.description,
    error: errorAt(context, path),
    required: isRequired,
    "data-path": path,
  };
  const { value } = props;
  const clear = (next: any) => onChange(next === "" || next === null ? undefined : next);
  switch (typeOf(schema)) {
    case "enum":
      return (
        <Select
          {...common}
          data={optionsOf(schema)!.map((one) => ({ value: String(one), label: words(String(one)) }))}
          value={value === undefined || value === null ? null : String(value)}
          // The options of a number are numbers.
          onChange={(next) => clear(optionsOf(schema)!.find((one) => String(one) === next))}
          allowDeselect={false}
          clearable={!isRequired}
          clearButtonProps={{ "aria-label": `Clear ${common.label}` }}
          placeholder={schema.default === undefined ? "" : words(String(schema.default))}
        />
      );
    case "boolean":
      return (
        <Switch
          label={common.label}
          description={common.description}
          error={common.error}
          checked={value ?? schema.default ?? false}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    case "integer":
    case "number":
      return (
        <NumberInput
          {...common}
          value={value ?? ""}
          onChange={(next) => clear(typeof next === "string" && next !== "" ? Number(next) : next)}
          allowDecimal={schema.type === "number"}
          placeholder={schema.default === undefined ? "" : String(schema.default)}
          hideControls
        />
      );
    case "string":
      return <StringField {...props} schema={schema} common={common} onChange={clear} />;
    case "array":
      return <ArrayField {...props} schema={schema} />;
    case "object":
      if (schema.properties && Object.keys(schema.properties).length > 0)
        return <ObjectField {...props} schema={schema} />;
      if (
        typeof schema.additionalProperties === "object" &&
        Object.keys(schema.additionalProperties).length > 0
      )
        return <RecordField {...props} schema={schema} items={schema.additionalProperties} />;
      return <Free {...common} value={value} onChange={onChange} placeholder='{"stars": 3}' />;
    case "any-of":
      return <AnyOf {...props} schema={schema} />;
    default:
      return <Free {...common} value={value} onChange={onChange} />;
  }
};

const ObjectField = ({ name, path, schema, value, isRequired, onChange, context }: FieldProps) => {
  const label = schema.title ?? words(name);
  if (value === undefined && !isRequired)
    return (
      <div>
        <Button
          variant="default"
          size="xs"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => onChange({})}
        >
          {label}
        </Button>
        {schema.description && (
          <Text size="xs" c="dimmed">
            {schema.description}
          </Text>
        )}
      </div>
    );
  return (
    <Fieldset
      legend={
        <Group gap={4}>
          {label}
          {!isRequired && <Remove label={label} onClick={() => onChange(undefined)} />}
        </Group>
      }
    >
      <Properties path={path} schema={schema} value={value ?? {}} onChange={onChange} context={context} />
    </Fieldset>
  );
};

export type PropertiesProps = Omit<FieldProps, "name" | "isRequired"> & { first?: readonly string[] };

/** The fields of an object: those that are needed, given or named first; the others one click away. */
export const Properties = ({ path, schema, value, onChange, context, first }: PropertiesProps) => {
  const [isOpen, { toggle }] = useDisclosure(false);
  const known = resolve(schema, context.forms);
  const names = Object.keys(known.properties ?? {}).filter(
    (name) => path !== "" || !context.hidden.includes(name),
  );
  const required = new Set(known.required ?? []);
  const isFirst = (name: string) =>
    required.has(name) ||
    first?.includes(name) ||
    (value[name] !== undefined && value[name] !== null) ||
    context.errors.some(({ field }) => field.startsWith(path === "" ? name : `${path}.${name}`));
  const shown = names.length <= 6 && !first ? names : names.filter(isFirst);
  const rest = names.filter((name) => !shown.includes(name));
  const order = first
    ? [...first.filter((name) => shown.includes(name)), ...shown.filter((name) => !first.includes(name))]
    : shown;
  const draw = (name: string) => {
    const field = known.properties![name]!;
    // A constant is written by whoever chose the kind.
    if (optionsOf(resolve(field, context.forms))?.length === 1 && required.has(name)) return null;
    return (
      <Field
        key={name}
        name={name}
        path={path === "" ? name : `${path}.${name}`}
        schema={field}
        value={value[name]}
        isRequired={required.has(name)}
        context={context}
        onChange={(next) => {
          const { [name]: _old, ...others } = value;
          const changed = next === undefined ? others : { ...value, [name]: next };
          // The key of something new follows its name until somebody writes one.
          const follows = name === "name" && required.has("key") && (value.key ?? "") === keyFor(value.name);
          onChange(follows ? { ...changed, key: keyFor(next) } : changed);
        }}
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

const ArrayField = (props: FieldProps) => {
  const { name, path, schema, value = [], isRequired = false, onChange, context } = props;
  const items = resolve(schema.items ?? {}, context.forms);
  const label = schema.title ?? words(name);
  const common = {
    label,
    description: schema.description,
    error: errorAt(context, path),
    required: isRequired,
  };
  const set = (next: any[]) => onChange(next.length === 0 && !isRequired ? undefined : next);
  if (items.enum)
    return (
      <MultiSelect
        {...common}
        data={items.enum.map((one) => ({ value: one, label: words(one) }))}
        value={value}
        onChange={set}
        searchable
      />
    );
  const reference = referenceOf(items["x-ref"] ? items : schema, name);
  if (typeOf(items) === "string")
    return reference ? (
      <References {...common} kind={reference} value={value} onChange={set} />
    ) : (
      <TagsInput {...common} value={value} onChange={set} />
    );
  if (typeOf(items) === "integer" || typeOf(items) === "number")
    return (
      <TagsInput
        {...common}
        value={value.map(String)}
        onChange={(next) => set(next.map(Number).filter(Number.isFinite))}
      />
    );
  const one = GROUPS.test(name) ? "Condition" : label.replace(/ies$/, "y").replace(/s$/, "");
  return (
    <Fieldset legend={label}>
      <Stack gap="sm">
        {schema.description && (
          <Text size="xs" c="dimmed">
            {schema.description}
          </Text>
        )}
        {value.map((item: any, index: number) => (
          <Group key={index} align="flex-start" wrap="nowrap" gap="xs">
            <div style={{ flex: 1 }}>
              <Field
                name={`${one} ${index + 1}`}
                path={`${path}.${index}`}
                schema={items}
                value={item}
                isRequired
                context={context}
                onChange={(next) => set(value.with(index, next ?? {}))}
              />
            </div>
            <Remove label={`${one} ${index + 1}`} onClick={() => set(value.toSpliced(index, 1))} />
          </Group>
        ))}
        <div>
          <Button
            variant="default"
            size="xs"
            leftSection={<Icon name="plus" size={14} />}
            onClick={() => set([...value, startOf(items, context.forms)])}
          >
            {`Add ${one.toLowerCase()}`}
          </Button>
          {common.error && (
            <Text size="xs" c="var(--mantine-color-error)">
              {common.error}
            </Text>
          )}
        </div>
      </Stack>
    </Fieldset>
  );
};

/** Values by key, such as amounts by currency. */
const RecordField = (props: FieldProps & { items: Schema }) => {
  const { name, path, schema, items, value = {}, isRequired = false, onChange, context } = props;
  const label = schema.title ?? words(name);
  const kind =
    referenceOf(schema, name.replace(/ies$/, "y")) ??
    Object.keys(LISTS).find((one) => name === LISTS[one]?.plural);
  const set = (next: [string, any][]) =>
    onChange(next.length === 0 && !isRequired ? undefined : Object.fromEntries(next));
  const entries = Object.entries(value);
  return (
    <Fieldset legend={label}>
      <Stack gap="sm">
        {schema.description && (
          <Text size="xs" c="dimmed">
            {schema.description}
          </Text>
        )}
        {entries.map(([key, item], index) => (
          <Group key={index} align="flex-start" wrap="nowrap" gap="xs">
            {kind ? (
              <Reference
                kind={kind}
                label="Key"
                value={key}
                onChange={(next) => set(entries.with(index, [next, item]))}
              />
            ) : (
              <TextInput
                label="Key"
                value={key}
                onChange={(event) => set(entries.with(index, [event.currentTarget.value, item]))}
              />
            )}
            <div style={{ flex: 1 }}>
              <Field
                name="Value"
                path={`${path}.${key}`}
                schema={items}
                value={item}
                isRequired
                context={context}
                onChange={(next) => set(entries.with(index, [key, next]))}
              />
            </div>
            <Remove label={`${label} ${key}`} onClick={() => set(entries.toSpliced(index, 1))} />
          </Group>
        ))}
        <Button
          variant="default"
          size="xs"
          w="fit-content"
          leftSection={<Icon name="plus" size={14} />}
          disabled={"" in value}
          onClick={() => set([...entries, ["", startOf(items, context.forms)]])}
        >
          {`Add to ${label.toLowerCase()}`}
        </Button>
        {errorAt(context, path) && (
          <Text size="xs" c="var(--mantine-color-error)">
            {errorAt(context, path)}
          </Text>
        )}
      </Stack>
    </Fieldset>
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
    const entries = (schema.required ?? []).map((name) => [
      name,
      startOf(schema.properties![name] ?? {}, forms),
    ]);
    return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
  }
  return schema.type === "array" ? [] : undefined;
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

const AnyOf = ({ name, path, schema, value, isRequired = false, onChange, context }: FieldProps) => {
  const { forms } = context;
  const options = (schema.anyOf ?? schema.oneOf ?? [])
    .map((one) => resolve(one, forms))
    // A choice among choices is one choice.
    .flatMap((one) => (one.anyOf ?? one.oneOf ?? [one]).map((inner) => resolve(inner, forms)));
  const label = schema.title ?? words(name);
  const common = {
    label,
    description: schema.description,
    error: errorAt(context, path),
    required: isRequired,
  };
  const choices = options.map((one) => choiceOf(one, forms));
  if (choices.length > 0 && choices.every((one) => one !== undefined)) {
    const chosen = choices.find((one) => one.is(value));
    return (
      <Stack gap="xs">
        <Select
          {...common}
          data={[...new Set(choices.map((one) => one.label))]}
          value={chosen?.label ?? null}
          onChange={(next) => {
            const one = choices.find((choice) => choice.label === next);
            const start = one && startOf(one.schema, forms);
            const group = Object.keys(start ?? {}).find((key) => GROUPS.test(key));
            const items = group && one?.schema.properties?.[group]?.items;
            // A group begins with what it held as another kind of group, or with one condition.
            const held = Object.entries(value ?? {}).find(([key]) => GROUPS.test(key))?.[1];
            onChange(items ? { [group]: held ?? [startOf(items, forms)] } : start);
          }}
          searchable
          allowDeselect={false}
          clearable={!isRequired}
          clearButtonProps={{ "aria-label": `Clear ${label}` }}
        />
        {chosen && (
          <Properties
            path={path}
            schema={chosen.schema}
            value={value}
            onChange={onChange}
            context={context}
          />
        )}
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
        schema={{
          ...first,
          title: label,
          ...(schema.description ? { description: schema.description } : {}),
        }}
      />
    );
  return <Free {...common} value={value} onChange={onChange} />;
};
