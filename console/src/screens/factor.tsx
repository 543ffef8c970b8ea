import { Text } from "@mantine/core";
import { useState } from "react";
import type { Answer } from "../api/client.ts";
import { form, OperationForm } from "../ui/operations.tsx";
import { Copyable, SecretOnce, Section } from "../ui/page.tsx";

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
