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
  TextInput,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import { OPERATIONS } from "../generated/operations.ts";
import { type Answer, ApiError, callAny, download, type Given, type Id } from "../api/client.ts";
import { resolve, useForms } from "../api/forms.ts";
import { queryClient, tell, tellError, useAct, useCan } from "../api/hooks.ts";
import { words } from "../format.ts";
import { Field, misfitOf, Properties, type PropertiesProps, startOf } from "./fields.tsx";
import { JobProgress } from "./job.tsx";
import { ButtonSize, ErrorNote, press, SecretOnce } from "./page.tsx";
import { useSending } from "./sending.tsx";

type Props<I extends Id> = Given<I> & {
  id: I;
  /** Shown when it is done; without it, that it is. */
  done?: string;
  onDone?: (answer: Answer<I>) => void;
};

type ActProps<I extends Id> = Props<I> & { label: string; isMain?: boolean };

/** A button that calls an operation; whoever may not call it does not see it. */
const Act = <I extends Id>({ id, label, done, onDone, isMain, ...given }: ActProps<I>) => {
  const can = useCan();
  const acting = useAct(id, { done: done ?? (onDone ? undefined : `${label}: done`), onDone });
  if (!can(id)) return null;
  const run = () => acting.mutate(given as unknown as Given<I>);
  return press(label, run, { isMain, loading: acting.isPending });
};

type Options<P> = Omit<P, "id" | "label">;

/** A button that calls an operation. */
export const act = <I extends Id>(id: I, label: string, options?: Options<ActProps<I>>): ReactNode => (
  <Act key={`${id} ${label}`} {...(options as ActProps<I>)} id={id} label={label} />
);

type SaveProps<I extends Id> = Given<I> & { id: I; name: string; children: string };

/** A button that saves what an operation answers as a file. */
export const SaveFile = <I extends Id>({ id, name, children, ...given }: SaveProps<I>) => {
  const can = useCan();
  if (!can(id)) return null;
  return press(children, () => void download(id, name, given).catch(tellError));
};

type ConfirmProps<I extends Id> = Props<I> & {
  /** On the button that opens the question. */
  label: string;
  /** What it is done to, or the whole question. */
  of?: string;
  title?: string;
  /** What will happen. */
  text?: string;
  /** What has to be typed, for what cannot be undone. */
  name?: string;
  color?: string;
};

/** A button that asks before it calls an operation; what destroys asks for the name. */
const Confirm = <I extends Id>({
  id,
  label,
  of,
  title = `${label} ${of}?`,
  text,
  name,
  color = "red",
  done = `${label}: done`,
  onDone,
  ...given
}: ConfirmProps<I>) => {
  const can = useCan();
  const [opened, { open, close }] = useDisclosure(false, { onOpen: () => setTyped("") });
  const [typed, setTyped] = useState("");
  const acting = useAct(id, {
    done,
    onDone: (answer) => {
      close();
      onDone?.(answer);
    },
  });
  const isReady = name === undefined || typed === name;
  if (!can(id)) return null;
  return (
    <>
      {press(label, open, { opens: true })}
      <Modal opened={opened} onClose={close} title={title}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (isReady && !acting.isPending) acting.mutate(given as unknown as Given<I>);
          }}
        >
          <Stack>
            {text && <Text>{text}</Text>}
            {name !== undefined && (
              <TextInput
                label={
                  <>
                    Type <b>{name}</b> to confirm
                  </>
                }
                value={typed}
                onChange={(event) => setTyped(event.currentTarget.value)}
                autoComplete="off"
                data-autofocus
              />
            )}
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              <Button color={color} type="submit" loading={acting.isPending} disabled={!isReady}>
                {label}
              </Button>
            </Group>
          </Stack>
        </form>
      </Modal>
    </>
  );
};

/** A button that asks before it calls an operation. */
export const ask = <I extends Id>(id: I, label: string, options: Options<ConfirmProps<I>>): ReactNode => (
  <Confirm key={`${id} ${label}`} {...(options as ConfirmProps<I>)} id={id} label={label} />
);

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
  /** What the answer has that is shown once, in place of the form: its name, and what it is. */
  secret?: [name: string, title: string];
  /** Long work that begins: its title, and how its result is shown; its progress takes the place of the form. */
  job?: [title: string, result?: (result: any) => ReactNode];
  children?: ReactNode;
};

/** The form of an operation, drawn from the schema of its body; the server checks, and says what is wrong where. */
export const OperationForm = (props: FormProps) => {
  const { id, path = {}, initial, first, hidden = [], fixed, submit = "Save", done = "Saved" } = props;
  const { secret, job } = props;
  const forms = useForms();
  const [value, setValue] = useState<any>();
  const [text, setText] = useState<string>();
  const [named, setNamed] = useState<Record<string, string>>({});
  const [answered, setAnswered] = useState<any>();
  const { error, isBusy, send } = useSending();
  if (!forms) return <Skeleton height={200} />;
  const schema = forms.bodies[id];
  if (!schema) return <Alert color="red">There is no form of {id}</Alert>;
  const known = resolve(schema, forms).properties;
  const given = initial === undefined ? startOf(schema, forms) : initial;
  // A form that changes something begins with what is there, of which not everything may be sent.
  const isSent = ([name, part]: [string, unknown]) => !known || (name in known && part !== null);
  const current = value ?? (known ? Object.fromEntries(Object.entries(given ?? {}).filter(isSent)) : given);
  const errors = error instanceof ApiError ? error.details : [];
  const change = (next: any) => {
    setValue(next);
    props.onChange?.(next);
  };
  const save = async () => {
    const body = text === undefined ? current : JSON.parse(text);
    try {
      const answer = await callAny(id, {
        path: { ...path, ...named },
        body: fixed ? { ...body, ...fixed } : body,
      });
      await queryClient.invalidateQueries();
      if (secret || job) setAnswered(answer);
      else if (done !== "") tell(done);
      props.onDone?.(answer);
    } catch (failure) {
      const field = failure instanceof ApiError ? failure.details[0]?.field : undefined;
      const at = `[data-path="${CSS.escape(field ?? "")}"]`;
      setTimeout(() => document.querySelector<HTMLElement>(at)?.focus());
      throw failure;
    }
  };
  const switchTo = async (mode: string) => {
    if (mode === "Form") {
      const next = JSON.parse(text ?? "null");
      const misfit = misfitOf(schema, next, forms);
      if (misfit !== undefined)
        throw new Error(`The form cannot show ${misfit || "this"} as it is written here`);
      change(next);
    }
    setText(mode === "Form" ? undefined : JSON.stringify(current, null, 2));
  };
  const context = { forms, errors, hidden };
  const unnamed = Array.from(OPERATIONS[id].matchAll(/\{(\w+)\}/g), ([, name]) => name!);
  if (answered && secret) return <SecretOnce title={secret[1]} value={answered[secret[0]]} />;
  if (answered && job) return <JobProgress id={answered.id} title={job[0]} result={job[1]} />;
  return (
    <form onSubmit={send(save)}>
      <Stack gap="sm">
        {unnamed
          .filter((name) => !(name in path))
          .map((name) => (
            <Field
              key={name}
              // Definitions have keys, by which people choose them.
              name={name.replace(/Id$/, "Key")}
              path={name}
              schema={{ type: "string", title: words(name.replace(/(Id|Key)$/, "")) }}
              value={named[name]}
              isRequired
              onChange={(next) => setNamed({ ...named, [name]: next })}
              context={context}
            />
          ))}
        {(known === undefined || Object.keys(known).length > 3) && (
          <SegmentedControl
            size="xs"
            data={["Form", "JSON"]}
            value={text === undefined ? "Form" : "JSON"}
            onChange={(mode) => send(() => switchTo(mode))()}
            style={{ alignSelf: "flex-end" }}
            aria-label="How to edit"
          />
        )}
        {text === undefined ? (
          <Root path="" schema={schema} value={current} onChange={change} first={first} context={context} />
        ) : (
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
        )}
        <ErrorNote error={error} />
        <Group justify="flex-end">
          <ButtonSize value="sm">{props.children}</ButtonSize>
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

export type FormButtonProps = FormProps & {
  label: string;
  title?: string;
  /** What the screen is for; such forms save something new. */
  isMain?: boolean;
  about?: ReactNode;
};

/** A button that opens the form of an operation; whoever may not call it does not see it. */
const FormButton = ({
  label,
  title = label,
  isMain = false,
  about,
  submit = isMain ? "Save" : label,
  done = isMain ? "Saved" : `${label}: done`,
  ...rest
}: FormButtonProps) => {
  const can = useCan();
  const [opened, { open, close }] = useDisclosure(false, { onOpen: () => setBegun(false) });
  const [isBegun, setBegun] = useState(false);
  if (!can(rest.id)) return null;
  return (
    <>
      {press(label, open, { isMain, opens: true })}
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
          <Text c="dimmed" mb="sm">
            {about}
          </Text>
        )}
        {opened && (
          <OperationForm
            {...rest}
            submit={submit}
            done={done}
            onChange={() => setBegun(true)}
            onDone={(answer) => {
              if (!rest.secret && !rest.job) close();
              rest.onDone?.(answer);
            }}
          />
        )}
      </Modal>
    </>
  );
};

/** A button that opens the form of an operation. */
export const form = (id: Id, label: string, options?: Options<FormButtonProps>): ReactNode => (
  <FormButton key={`${id} ${label}`} {...options} id={id} label={label} />
);

/** What a screen is for: a button that opens the form of something new. */
export const create = (id: Id, label: string, options?: Options<FormButtonProps>): ReactNode =>
  form(id, label, { isMain: true, ...options });
