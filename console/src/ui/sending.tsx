import { provePasskey } from "../api/client.ts";
import { Button, Stack, Text, TextInput } from "@mantine/core";
import { type FormEvent, type ReactNode, useState } from "react";
import { ErrorNote } from "./page.tsx";

type Sending = {
  error: unknown;
  isBusy: boolean;
  send: (work: () => Promise<unknown>) => (event?: React.FormEvent) => void;
};

/** Runs what a form or a button does, and keeps its error or tells it. */
export const useSending = (tell?: (error: unknown) => void): Sending => {
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const send = (work: () => Promise<unknown>) => (event?: React.FormEvent) => {
    event?.preventDefault();
    // A form in a dialogue stands inside another in React's tree.
    event?.stopPropagation();
    setBusy(true);
    setError(undefined);
    work()
      .catch(tell ?? setError)
      .finally(() => setBusy(false));
  };
  return { error, isBusy, send };
};

type Props = {
  /** On the button that sends it. */
  submit: string;
  /** Gets what is in the inputs, by their names. */
  onSubmit: (values: any) => Promise<unknown>;
  color?: string;
  children?: ReactNode;
  /** Another way to the same, below. */
  other?: [label: string, work: () => unknown];
};

/** A form of a few inputs, each of which has a name. */
export const SmallForm = ({ submit, onSubmit, color, children, other }: Props) => {
  const { error, isBusy, send } = useSending();
  const sendValues = (event: FormEvent<HTMLFormElement>) => {
    const values = Object.fromEntries(new FormData(event.currentTarget));
    send(() => onSubmit(values))(event);
  };
  return (
    <form onSubmit={sendValues}>
      <Stack gap="sm">
        {children}
        <ErrorNote error={error} />
        <Button type="submit" color={color} loading={isBusy}>
          {submit}
        </Button>
        {other && (
          <Button variant="default" onClick={send(async () => other[1]())}>
            {other[0]}
          </Button>
        )}
      </Stack>
    </form>
  );
};

type FactorProps = {
  /** What the second factor is asked for. */
  children: ReactNode;
  hasPasskey?: boolean;
  onSubmit: (proof: object) => Promise<unknown>;
};

/** Asks for the second factor: a code or a passkey. */
export const FactorForm = ({ children, hasPasskey = true, onSubmit }: FactorProps) => (
  <SmallForm
    submit="Go on"
    onSubmit={({ code }) => onSubmit({ code: code.trim() })}
    other={
      hasPasskey ? ["Use a passkey", async () => onSubmit({ passkey: await provePasskey() })] : undefined
    }
  >
    <Text>{children}</Text>
    <TextInput
      label="Code of your app, or a recovery code"
      name="code"
      autoComplete="one-time-code"
      autoFocus
      data-autofocus
      // Six digits are all of a code: nobody has to press a key after them.
      onChange={({ currentTarget: { value, form: around } }) =>
        /^\d{6}$/.test(value) && around?.requestSubmit()
      }
    />
  </SmallForm>
);
