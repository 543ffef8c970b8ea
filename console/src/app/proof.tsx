import { Modal, Text, TextInput } from "@mantine/core";
import { useEffect, useState } from "react";
import { callAny, onProofNeeded } from "../api/client.ts";
import { passkeyAnswer } from "../api/passkeys.ts";
import { SmallForm } from "../ui/sending.tsx";

/** Asks for the second factor again when the server wants it, and then lets go on what was begun. */
export const Proof = () => {
  const [answer, setAnswer] = useState<((isProven: boolean) => void) | undefined>();
  useEffect(() => onProofNeeded(() => new Promise((resolve) => setAnswer(() => resolve))), []);
  const end = (isProven: boolean) => {
    answer?.(isProven);
    setAnswer(undefined);
  };
  const verify = async (body: object) => {
    await callAny("verifySecondFactor", { body });
    end(true);
  };
  const byPasskey = async () => verify({ passkey: await passkeyAnswer(await callAny("startPasskeyLogin")) });
  return (
    <Modal opened={answer !== undefined} onClose={() => end(false)} title="Is it you?" zIndex={400}>
      <SmallForm
        submit="Go on"
        onSubmit={({ code }) => verify({ code: code.trim() })}
        other={["Use a passkey", byPasskey]}
      >
        <Text>This asks for your second factor again. It counts for ten minutes.</Text>
        <TextInput
          label="Code of your app"
          name="code"
          autoComplete="one-time-code"
          inputMode="numeric"
          data-autofocus
        />
      </SmallForm>
    </Modal>
  );
};
