import { Button, Stack } from "@mantine/core";
import type { FormEvent, ReactNode } from "react";
import { ErrorNote } from "./page.tsx";
import { useSending } from "./sending.ts";

type Props = {
  /** On the button that sends it. */
  submit: string;
  /** Gets what is in the inputs, by their names. */
  onSubmit: (values: any) => Promise<unknown>;
  children?: ReactNode;
};

/** A form of a few inputs, each of which has a name. */
export const SmallForm = ({ submit, onSubmit, children }: Props) => {
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
        <Button type="submit" loading={isBusy}>
          {submit}
        </Button>
      </Stack>
    </form>
  );
};
