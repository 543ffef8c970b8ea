import { Alert, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { Copyable, ErrorNote, Inline, press } from "../ui/page.tsx";
import { useSending } from "../ui/sending.tsx";

type Setup = { secret: string; otpauthUrl: string };
/** Calls something with what proves who one is; the answer may have new recovery codes. */
type Run = (work: (proof: object) => Promise<any>) => () => void;

type Props = {
  begin: (proof: object) => Promise<Setup>;
  enable: (code: string) => Promise<any>;
  onDone: (answer: any) => Promise<unknown>;
  hasPassword: boolean;
  isEnabled: boolean;
  /** On the button that begins. */
  label: string;
  /** More buttons, and what is below them. */
  buttons?: (run: Run) => ReactNode;
  children?: (run: Run) => ReactNode;
};

/** Sets an app up as a second factor; a password and a code of the app there is prove who one is. */
export const FactorSetup = ({ begin, enable, onDone, hasPassword, isEnabled, label, ...more }: Props) => {
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [setup, setSetup] = useState<Setup>();
  const [recovery, setRecovery] = useState<string[]>();
  const { error, isBusy, send } = useSending();
  const proof = {
    ...(password === "" ? {} : { currentPassword: password }),
    ...(code === "" || setup ? {} : { code: code.trim() }),
  };
  const run: Run = (work) =>
    send(async () => {
      const answer = await work(proof);
      if (answer?.recoveryCodes) setRecovery(answer.recoveryCodes);
      setSetup(undefined);
      setCode("");
      setPassword("");
      await onDone(answer);
    });
  return (
    <Stack gap="sm">
      {recovery && (
        <Alert color="yellow" title="Your recovery codes">
          <Text>
            Each replaces your app once. Keep them where your phone is not: they are shown only here.
          </Text>
          <Copyable value={recovery.join("\n")} />
        </Alert>
      )}
      <Inline>
        {hasPassword && (
          <PasswordInput
            label="Your password"
            autoComplete="current-password"
            value={password}
            onChange={(event) => setPassword(event.currentTarget.value)}
            w={220}
          />
        )}
        {(isEnabled || setup) && (
          <TextInput
            label="Code of your app"
            value={code}
            onChange={(event) => setCode(event.currentTarget.value)}
            autoComplete="one-time-code"
            w={160}
          />
        )}
        {setup
          ? press(
              "Switch it on",
              run(() => enable(code.trim())),
              { isMain: true, loading: isBusy },
            )
          : press(
              label,
              send(async () => setSetup(await begin(proof))),
              { loading: isBusy },
            )}
        {more.buttons?.(run)}
      </Inline>
      {setup && (
        <Alert color="teal" title="Add this to your app, then type its code above">
          <Text>Secret:</Text>
          <Copyable value={setup.secret} />
          <Text>Or open this link on the phone:</Text>
          <Copyable value={setup.otpauthUrl} />
        </Alert>
      )}
      <ErrorNote error={error} />
      {more.children?.(run)}
    </Stack>
  );
};
