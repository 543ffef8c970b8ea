import {
  Button,
  Group,
  JsonInput,
  Modal,
  Progress,
  SegmentedControl,
  Skeleton,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import { OPERATIONS } from "../generated/operations.ts";
import { type Answer, ApiError, download, type Given, type Id } from "../api/client.ts";
import { resolve, useForms } from "../api/forms.ts";
import { change, tellError, useAny, useApi, useCan, unsaved } from "../api/hooks.ts";
import { keyFor, words } from "../format.ts";
import { changesOf, Field, takenOf, misfitOf, Properties, type PropertiesProps, startOf } from "./fields.tsx";
import { ButtonSize, Dialog, ErrorNote, press, SecretOnce, Status } from "./page.tsx";
import { SmallForm, useSending } from "./sending.tsx";

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
  const { isBusy, send } = useSending(tellError);
  const run = async () => {
    const answer = await change(id, given as unknown as Given<I>, done ?? (onDone ? "" : `${label}: done`));
    onDone?.(answer);
  };
  return can(id) ? press(label, send(run), { isMain, loading: isBusy }) : null;
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
  const [opened, { open, close }] = useDisclosure(false);
  const run = async ({ typed }: { typed?: string }) => {
    if (typed !== name) throw new Error(`This is not ${name}`);
    const answer = await change(id, given as unknown as Given<I>, done);
    close();
    onDone?.(answer);
  };
  if (!can(id)) return null;
  return (
    <>
      {press(label, open, { opens: true })}
      <Dialog isOpen={opened} onClose={close} title={title} size="md">
        {() => (
          <SmallForm submit={label} color={color} onSubmit={run} other={["Cancel", close]}>
            {text && <Text>{text}</Text>}
            {name !== undefined && (
              <TextInput
                label={
                  <>
                    Type <b>{name}</b> to confirm
                  </>
                }
                name="typed"
                autoComplete="off"
                required
                data-autofocus
              />
            )}
          </SmallForm>
        )}
      </Dialog>
    </>
  );
};

/** A button that asks before it calls an operation. */
export const ask = <I extends Id>(id: I, label: string, options: Options<ConfirmProps<I>>): ReactNode => (
  <Confirm key={`${id} ${label}`} {...(options as ConfirmProps<I>)} id={id} label={label} />
);

const OVER = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

type JobProps = {
  id: string;
  title: string;
  /** Shows the result when it is there. */
  result?: ((result: any) => ReactNode) | undefined;
};

/** How far long work is, until it ends. */
export const JobProgress = ({ id, title, result: show }: JobProps) => {
  const path = { jobId: id };
  const [isOver, setOver] = useState(false);
  const { data, error } = useApi("getJob", { path }, { refetchInterval: isOver ? false : 1_000 });
  const isDone = data?.status === "SUCCEEDED";
  const result = useAny("getJobResult", { path }, { enabled: isDone && show !== undefined });
  if (data && OVER.has(data.status) !== isOver) setOver(OVER.has(data.status));
  if (!data) return error ? <ErrorNote error={error} /> : <Progress value={0} aria-label={title} />;
  const color = data.status === "FAILED" ? "red" : "teal";
  return (
    <Stack gap={4}>
      <Group justify="space-between">
        <Text>{title}</Text>
        <Status value={data.status} />
      </Group>
      <Progress value={data.progress} animated={!isOver} aria-label={title} color={color} />
      {data.error && <Text c="var(--mantine-color-error)">{data.error}</Text>}
      {result.data && show?.(result.data)}
      <Group gap="xs">
        {!isOver && act("cancelJob", "Cancel", { path })}
        {isDone && (
          <SaveFile id="getJobResult" name={`${keyFor(title)}.json`} path={path}>
            Save the result
          </SaveFile>
        )}
      </Group>
    </Stack>
  );
};

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
  /** By this name what is typed is kept while one looks elsewhere, until it is saved. */
  keep?: string;
  submit?: string;
  /** Shown when it is done. */
  done?: string;
  onDone?: (answer: any) => void;
  onChange?: (value: any) => void;
  /** What the answer has that is shown once, in place of the form: its name, and what it is. */
  secret?: [name: string, title: string];
  /** Long work that begins: its title, and how its result is shown; its progress takes the place of the form. */
  job?: [title: string, result?: (result: any) => ReactNode];
  /** Shows what the answer tells, in place of the form. */
  tells?: (answer: any) => ReactNode;
  children?: ReactNode;
};

/** Whoever opens a form in a dialogue types into its first field, in place of meeting the cross first. */
const beginAt = (node: HTMLFormElement | null): void => {
  const fields = "input:not([type=radio], [type=hidden]), textarea, select";
  const field = node?.closest("[role=dialog]") && node.querySelector<HTMLElement>(fields);
  field?.setAttribute("data-autofocus", "");
  field?.focus();
};

/** The form of an operation, drawn from the schema of its body; the server checks, and says what is wrong where. */
export const OperationForm = (props: FormProps) => {
  const { id, path = {}, initial, first, hidden = [], keep = "", submit = "Save", done = "Saved" } = props;
  const { secret, job, tells } = props;
  const staysOpen = secret ?? job ?? tells;
  const forms = useForms();
  const [typing, setTyping] = useState<any>(unsaved.get(keep));
  const [named, setNamed] = useState<Record<string, string>>({});
  const [answered, setAnswered] = useState<any>();
  const { error, isBusy, send } = useSending();
  if (!forms) return <Skeleton height={200} />;
  // Of an operation without a body there is only the button.
  const schema = forms.bodies[id] ?? { properties: {} };
  const known = resolve(schema, forms).properties;
  const given = initial === undefined ? startOf(schema, forms) : initial;
  // Of when somebody began to type: others may change it meanwhile, and saving on top of an older version tells so.
  const { value, text, begun = takenOf(schema, given, forms), fixed = props.fixed } = typing ?? {};
  const current = value ?? begun;
  const errors = error instanceof ApiError ? error.details : [];
  const hold = (next: object) => {
    const held = { ...next, begun, fixed };
    setTyping(held);
    if (keep !== "") unsaved.set(keep, held);
  };
  const edit = (next: any) => {
    hold({ value: next });
    props.onChange?.(next);
  };
  const discard = () => {
    unsaved.delete(keep);
    setTyping(undefined);
    props.onChange?.(initial);
  };
  const save = async () => {
    const typed = text === undefined ? current : JSON.parse(text);
    const isChange = initial !== undefined && OPERATIONS[id].startsWith("PATCH");
    const parts = isChange ? changesOf(schema, begun, typed, forms) : typed;
    const body = Array.isArray(typed) ? typed : { ...parts, ...fixed };
    try {
      const sent: any = { path: { ...path, ...named }, body };
      const answer = await change(id, sent, staysOpen ? "" : done);
      unsaved.delete(keep);
      setTyping(typing && { value, text, begun: typed });
      if (staysOpen) setAnswered(answer);
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
      edit(next);
    } else setTyping({ value, text: JSON.stringify(current, null, 2), begun, fixed });
  };
  const context = { forms, errors, hidden };
  const unnamed = Array.from(OPERATIONS[id].matchAll(/\{(\w+)\}/g), ([, name]) => name!);
  if (answered && secret) return <SecretOnce title={secret[1]} value={answered[secret[0]]} />;
  if (answered && tells) return tells(answered);
  if (answered && job) return <JobProgress id={answered.id} title={job[0]} result={job[1]} />;
  return (
    <form onSubmit={send(save)} ref={beginAt}>
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
          <Root path="" schema={schema} value={current} onChange={edit} first={first} context={context} />
        ) : (
          <JsonInput
            label="JSON"
            value={text}
            onChange={(next) => hold({ value: current, text: next })}
            autosize
            minRows={8}
            maxRows={30}
            classNames={{ input: "mono" }}
            formatOnBlur
          />
        )}
        <ErrorNote error={error} />
        <Group justify="flex-end">
          <ButtonSize value="sm">
            {unsaved.has(keep) && press("Discard what is not saved", discard)}
            {props.children}
          </ButtonSize>
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
          <Text c="dimmed" mb="sm" component="div">
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
              if (!rest.secret && !rest.job && !rest.tells) close();
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
