import { Button } from "@mantine/core";
import type { ReactNode } from "react";
import type { Answer, Given, Id } from "../api/client.ts";
import { useAct } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";

type Props<I extends Id> = Given<I> & {
  id: I;
  /** Shown when it is done. */
  done?: string;
  onDone?: (answer: Answer<I>) => void;
  children: ReactNode;
  isMain?: boolean;
  size?: string;
};

/** A button that calls an operation; whoever may not call it does not see it. */
export const Act = <I extends Id>({
  id,
  done,
  onDone,
  children,
  isMain,
  size = "compact-xs",
  ...given
}: Props<I>) => {
  const can = useCan();
  const act = useAct(id, { ...(done ? { done } : {}), ...(onDone ? { onDone } : {}) });
  if (!can(id)) return null;
  return (
    <Button
      size={size}
      variant={isMain ? "filled" : "default"}
      loading={act.isPending}
      onClick={() => act.mutate(given as unknown as Given<I>)}
    >
      {children}
    </Button>
  );
};
