import { useState } from "react";

type Sending = {
  error: unknown;
  isBusy: boolean;
  send: (work: () => Promise<unknown>) => (event?: React.FormEvent) => void;
};

/** Runs what a form does, and keeps its error. */
export const useSending = (): Sending => {
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const send = (work: () => Promise<unknown>) => (event?: React.FormEvent) => {
    event?.preventDefault();
    // A form in a dialogue stands inside another in React's tree.
    event?.stopPropagation();
    setBusy(true);
    setError(undefined);
    work()
      .catch(setError)
      .finally(() => setBusy(false));
  };
  return { error, isBusy, send };
};
