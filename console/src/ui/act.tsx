import { Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type ReactNode, useContext, useState } from "react";
import { type Answer, download, type Given, type Id } from "../api/client.ts";
import { tellError, useAct } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { ButtonSize } from "./small.tsx";

type Props<I extends Id> = Given<I> & {
  id: I;
  /** Shown when it is done; without it, that it is. */
  done?: string;
  onDone?: (answer: Answer<I>) => void;
};

/** A button that calls an operation; whoever may not call it does not see it. */
export const Act = <I extends Id>({
  id,
  done,
  onDone,
  children,
  isMain,
  ...given
}: Props<I> & { children: string; isMain?: boolean }) => {
  const can = useCan();
  const size = useContext(ButtonSize);
  const acting = useAct(id, { done: done ?? `${children}: done`, onDone });
  if (!can(id)) return null;
  return (
    <Button
      size={size}
      variant={isMain ? "filled" : "default"}
      loading={acting.isPending}
      onClick={() => acting.mutate(given as unknown as Given<I>)}
    >
      {children}
    </Button>
  );
};

type ActOptions<I extends Id> = Props<I> & { isMain?: boolean };

/** A button that calls an operation. */
export const act = <I extends Id>(id: I, label: string, options?: Omit<ActOptions<I>, "id">): ReactNode => (
  <Act key={`${id} ${label}`} {...(options as ActOptions<I>)} id={id}>
    {label}
  </Act>
);

type SaveProps<I extends Id> = Given<I> & { id: I; name: string; children: ReactNode };

/** A button that saves what an operation answers as a file. */
export const SaveFile = <I extends Id>({ id, name, children, ...given }: SaveProps<I>) => {
  const can = useCan();
  const size = useContext(ButtonSize);
  if (!can(id)) return null;
  const save = () => void download(id, name, given).catch(tellError);
  return (
    <Button size={size} variant="default" onClick={save}>
      {children}
    </Button>
  );
};

type ConfirmProps<I extends Id> = Props<I> & {
  /** On the button that opens the question. */
  label: string;
  /** What it is done to, or the whole question. */
  of?: string;
  title?: string;
  /** What will happen. */
  children?: ReactNode;
  /** What has to be typed, for what cannot be undone. */
  name?: string;
  color?: string;
};

/** A button that asks before it calls an operation; what destroys asks for the name. */
export const Confirm = <I extends Id>({
  id,
  label,
  of,
  title = `${label} ${of}?`,
  children,
  name,
  color = "red",
  done = `${label}: done`,
  onDone,
  ...given
}: ConfirmProps<I>) => {
  const can = useCan();
  const size = useContext(ButtonSize);
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
      <Button size={size} variant="default" onClick={open}>
        {label}
      </Button>
      <Modal opened={opened} onClose={close} title={title}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (isReady && !acting.isPending) acting.mutate(given as unknown as Given<I>);
          }}
        >
          <Stack>
            {children && <Text size="sm">{children}</Text>}
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
export const ask = <I extends Id>(
  id: I,
  label: string,
  { text, ...options }: Omit<ConfirmProps<I>, "id" | "label" | "children"> & { text?: string },
): ReactNode => (
  <Confirm key={`${id} ${label}`} {...(options as ConfirmProps<I>)} id={id} label={label}>
    {text}
  </Confirm>
);
