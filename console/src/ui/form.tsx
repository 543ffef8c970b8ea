import {
  Alert,
  Button,
  Group,
  JsonInput,
  Modal,
  SegmentedControl,
  Skeleton,
  Stack,
  Text,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import { ApiError, callAny, type Id } from "../api/client.ts";
import { resolve, useForms } from "../api/forms.ts";
import { queryClient, tell } from "../api/hooks.ts";
import { Field, Properties, type PropertiesProps, startOf } from "./fields.tsx";
import type { Context } from "./values.tsx";
import { ErrorNote } from "./page.tsx";

type FormProps = {
  /** The operation that the form is sent to. */
  id: Id;
  path?: object;
  initial?: any;
  /** Fields that stand above, in this order; the rest is one click away. */
  first?: readonly string[];
  hidden?: readonly string[];
  /** Added to what is sent. */
  fixed?: object;
  submit?: string;
  /** Shown when it is done. */
  done?: string;
  onDone?: (answer: any) => void;
  onChange?: (value: any) => void;
  custom?: Context["custom"];
  children?: ReactNode;
};

/** The form of an operation, drawn from the schema of its body; the server checks, and says what is wrong where. */
export const OperationForm = ({
  id,
  path = {},
  initial,
  first,
  hidden = [],
  fixed,
  submit = "Save",
  done = "Saved",
  onDone,
  onChange,
  custom,
  children,
}: FormProps) => {
  const forms = useForms();
  const [value, setValue] = useState<any>();
  const [mode, setMode] = useState("Form");
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  if (!forms) return <Skeleton height={200} />;
  const schema = forms.bodies[id];
  if (!schema) return <Alert color="red">There is no form of {id}</Alert>;
  const known = resolve(schema, forms).properties;
  const given = initial === undefined ? startOf(schema, forms) : initial;
  // A form that changes something begins with what is there, of which not everything may be sent.
  const start =
    known === undefined
      ? given
      : Object.fromEntries(
          Object.entries(given ?? {}).filter(([name, part]) => name in known && part !== null),
        );
  const current = value ?? start;
  const errors = error instanceof ApiError ? error.details : [];
  const change = (next: any) => {
    setValue(next);
    onChange?.(next);
  };
  const send = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const body = mode === "JSON" ? JSON.parse(text) : current;
      const answer = await callAny(id, { path, body: fixed ? { ...body, ...fixed } : body });
      await queryClient.invalidateQueries();
      if (done !== "") tell(done);
      onDone?.(answer);
    } catch (failure) {
      setError(failure);
      const field = failure instanceof ApiError ? failure.details[0]?.field : undefined;
      if (field)
        setTimeout(() => document.querySelector<HTMLElement>(`[data-path="${CSS.escape(field)}"]`)?.focus());
    } finally {
      setBusy(false);
    }
  };
  const switchTo = (next: string) => {
    if (next === "JSON") setText(JSON.stringify(current, null, 2));
    else
      try {
        change(JSON.parse(text));
      } catch (failure) {
        return setError(failure);
      }
    setError(undefined);
    setMode(next);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        event.stopPropagation();
        void send();
      }}
    >
      <Stack gap="sm">
        {(known === undefined || Object.keys(known).length > 3) && (
          <SegmentedControl
            size="xs"
            data={["Form", "JSON"]}
            value={mode}
            onChange={switchTo}
            style={{ alignSelf: "flex-end" }}
            aria-label="How to edit"
          />
        )}
        {mode === "JSON" ? (
          <JsonInput
            label="JSON"
            value={text}
            onChange={setText}
            autosize
            minRows={8}
            maxRows={30}
            classNames={{ input: "mono" }}
            formatOnBlur
          />
        ) : (
          <Root
            path=""
            schema={schema}
            value={current}
            onChange={change}
            {...(first ? { first } : {})}
            context={{ forms, errors, hidden, custom }}
          />
        )}
        {error !== undefined && <ErrorNote error={error} />}
        <Group justify="flex-end">
          {children}
          <Button type="submit" loading={isBusy}>
            {submit}
          </Button>
        </Group>
      </Stack>
    </form>
  );
};

/** A body is mostly one object; of some there are several kinds. */
const Root = (props: PropertiesProps) => {
  const schema = resolve(props.schema, props.context.forms);
  if (schema.properties) return <Properties {...props} schema={schema} />;
  return <Field {...props} name="Kind" schema={schema} isRequired />;
};

type FormButtonProps = FormProps & {
  label: string;
  title?: string;
  variant?: string;
  size?: string;
  disabled?: boolean;
  about?: ReactNode;
};

/** A button that opens the form of an operation. */
export const FormButton = ({
  label,
  title = label,
  variant = "filled",
  size = "sm",
  disabled = false,
  about,
  onDone,
  ...form
}: FormButtonProps) => {
  const [opened, { open, close }] = useDisclosure(false);
  const [isBegun, setBegun] = useState(false);
  return (
    <>
      <Button
        variant={variant}
        size={size}
        disabled={disabled}
        aria-haspopup="dialog"
        onClick={() => {
          setBegun(false);
          open();
        }}
      >
        {label}
      </Button>
      <Modal
        opened={opened}
        onClose={close}
        title={title}
        size="lg"
        // What somebody has filled in is not lost by a click beside it or a key: the cross closes it.
        closeOnClickOutside={!isBegun}
        closeOnEscape={!isBegun}
        onInput={() => setBegun(true)}
      >
        {about && (
          <Text size="sm" c="dimmed" mb="sm" component="div">
            {about}
          </Text>
        )}
        {opened && (
          <OperationForm
            {...form}
            onChange={(value) => {
              setBegun(true);
              form.onChange?.(value);
            }}
            onDone={(answer) => {
              close();
              onDone?.(answer);
            }}
          />
        )}
      </Modal>
    </>
  );
};
