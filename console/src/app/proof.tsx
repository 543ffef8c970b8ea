import { Button, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useEffect, useState } from "react";
import { callAny, onProofNeeded } from "../api/client.ts";
import { passkeyAnswer } from "../api/passkeys.ts";
import { ErrorNote } from "../ui/page.tsx";
import { useSending } from "../ui/sending.tsx";

/** Asks for the second factor again when the server wants it, and then lets go on what was begun. */
export const Proof = () => {
  const [answer, setAnswer] = useState<((isProven: boolean) => void) | undefined>();
  const [code, setCode] = useState("");
  const { error, isBusy, send } = useSending();
  useEffect(() => onProofNeeded(() => new Promise((resolve) => setAnswer(() => resolve))), []);
  const end = (isProven: boolean) => {
    answer?.(isProven);
    setAnswer(undefined);
    setCode("");
  };
  const verify = (body: () => Promise<object>) =>
    send(async () => {
      await callAny("verifySecondFactor", { body: await body() });
      end(true);
    });
  const byPasskey = verify(async () => ({
    passkey: await passkeyAnswer(await callAny("startPasskeyLogin")),
  }));
  return (
    <Modal opened={answer !== undefined} onClose={() => end(false)} title="Is it you?" zIndex={400}>
      <form onSubmit={verify(async () => ({ code: code.trim() }))}>
        <Stack>
          <Text>This asks for your second factor again. It counts for ten minutes.</Text>
          <TextInput
            label="Code of your app"
            value={code}
            onChange={(event) => setCode(event.currentTarget.value)}
            autoComplete="one-time-code"
            inputMode="numeric"
            data-autofocus
          />
          <ErrorNote error={error} />
          <Button type="submit" loading={isBusy}>
            Go on
          </Button>
          <Button variant="default" onClick={byPasskey}>
            Use a passkey
          </Button>
        </Stack>
      </form>
    </Modal>
  );
};
