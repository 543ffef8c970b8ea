import { Modal } from "@mantine/core";
import { useEffect, useState } from "react";
import { callAny, onProofNeeded } from "../api/client.ts";
import { FactorForm } from "../ui/sending.tsx";

/** Asks for the second factor again when the server wants it, and then lets go on what was begun. */
export const Proof = () => {
  const [answer, setAnswer] = useState<((isProven: boolean) => void) | undefined>();
  useEffect(() => onProofNeeded(() => new Promise((resolve) => setAnswer(() => resolve))), []);
  const end = (isProven: boolean) => {
    answer?.(isProven);
    setAnswer(undefined);
  };
  const verify = (body: object) => callAny("verifySecondFactor", { body }).then(() => end(true));
  return (
    <Modal opened={answer !== undefined} onClose={() => end(false)} title="Is it you?" zIndex={400}>
      <FactorForm onSubmit={verify}>
        This asks for your second factor again. It counts for ten minutes.
      </FactorForm>
    </Modal>
  );
};
