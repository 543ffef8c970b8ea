import { Text, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Answer } from "../api/client.ts";
import { provePasskey } from "../api/passkeys.ts";
import { form, OperationForm } from "../ui/operations.tsx";
import { Copyable, SecretOnce, Section } from "../ui/page.tsx";
import { SmallForm } from "../ui/sending.tsx";

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

type SetupProps = {
  begin: "setUpTotp" | "setUpSuperadminTotp";
  enable: "enableTotp" | "enableSuperadminTotp";
  /** On the button that begins. */
  label: string;
  /** What this person cannot prove who they are by. */
  hidden: string[];
  onDone: (answer: any) => void;
};

/** Sets an app up as a second factor. */
export const AppSetup = ({ begin, enable, label, hidden, onDone }: SetupProps) => {
  const [setup, setSetup] = useState<Answer<"setUpTotp">>();
  const done = (answer: unknown) => {
    setSetup(undefined);
    onDone(answer);
  };
  return (
    <>
      <div>{form(begin, label, { hidden, done: "", onDone: setSetup })}</div>
      {setup && (
        <Section title="Add this to your app, then type its code">
          <Text>Secret:</Text>
          <Copyable value={setup.secret} />
          <Text>Or open this link on the phone:</Text>
          <Copyable value={setup.otpauthUrl} />
          <OperationForm id={enable} submit="Switch it on" done="It is on" onDone={done} />
        </Section>
      )}
    </>
  );
};

export const RecoveryCodes = ({ codes }: { codes: string[] }) => (
  <SecretOnce title="Your recovery codes" value={codes.join("\n")}>
    <Text>Each replaces your app once: keep them where your phone is not.</Text>
  </SecretOnce>
);
