import {
  ActionIcon,
  Alert,
  Badge,
  Button,
  Code,
  CopyButton,
  Group,
  Modal,
  Paper,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
  Tooltip,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import { ago, moment, words } from "../format.ts";
import { Icon } from "./icons.tsx";

const COLOURS: Record<string, string> = {
  ACTIVE: "teal",
  PUBLISHED: "teal",
  PROCESSED: "teal",
  DELIVERED: "teal",
  APPROVED: "teal",
  VERIFIED: "teal",
  COMPLETED: "teal",
  SUCCEEDED: "teal",
  DONE: "teal",
  SENT: "teal",
  OPEN: "blue",
  PENDING: "yellow",
  RUNNING: "blue",
  QUEUED: "yellow",
  DRAFT: "gray",
  PAUSED: "orange",
  SHADOW: "violet",
  ARCHIVED: "gray",
  ENDED: "gray",
  FAILED: "red",
  REJECTED: "red",
  SUSPENDED: "red",
  BANNED: "red",
  REVERTED: "orange",
};

/** A state as a dot and words. */
export const Status = ({ value }: { value: string | null | undefined }) =>
  value == null ? (
    "–"
  ) : (
    <span style={{ whiteSpace: "nowrap" }}>
      <span className="dot" style={{ background: `var(--mantine-color-${COLOURS[value] ?? "gray"}-6)` }} />
      {words(value)}
    </span>
  );

/** A name, and under it what tells two of the same name apart. */
export const Named = ({ name, more }: { name: ReactNode; more?: ReactNode }) => (
  <>
    <Text size="sm" fw={500}>
      {name}
    </Text>
    {more && (
      <Text size="xs" c="dimmed">
        {more}
      </Text>
    )}
  </>
);

/** How long ago, with the exact time under the pointer. */
export const When = ({ at }: { at: string | null | undefined }) =>
  at == null ? (
    "–"
  ) : (
    <Tooltip label={moment(at)}>
      <time dateTime={at} style={{ whiteSpace: "nowrap" }}>
        {ago(at)}
      </time>
    </Tooltip>
  );

export const CopyIcon = ({ value, label = "Copy" }: { value: string; label?: string }) => (
  <CopyButton value={value}>
    {({ copied, copy }) => (
      <Tooltip label={copied ? "Copied" : label}>
        <ActionIcon
          variant="subtle"
          color="gray"
          size="sm"
          onClick={copy}
          aria-label={copied ? "Copied" : label}
        >
          <Icon name={copied ? "start" : "copy"} size={14} />
        </ActionIcon>
      </Tooltip>
    )}
  </CopyButton>
);

/** A secret or a command, to be copied. */
export const Copyable = ({ value }: { value: string }) => (
  <Group gap={4} wrap="nowrap" align="flex-start" w="100%">
    <Code block style={{ flex: 1, minWidth: 0, overflow: "auto" }} tabIndex={0}>
      {value}
    </Code>
    <CopyIcon value={value} />
  </Group>
);

/** A secret that the server shows once. */
export const SecretOnce = ({
  title,
  value,
  children,
}: {
  title: string;
  value: string;
  children?: ReactNode;
}) => (
  <Alert color="yellow" title={title}>
    <Stack gap="xs">
      <Text size="sm">Keep it now: it is not shown again.</Text>
      <Copyable value={value} />
      {children}
    </Stack>
  </Alert>
);

export const Json = ({ value }: { value: unknown }) => (
  <Code block className="json" tabIndex={0}>
    {JSON.stringify(value, null, 2)}
  </Code>
);

/** Names and values, such as the properties of one thing. */
export const Facts = ({ of, columns = 4 }: { of: Record<string, ReactNode>; columns?: number }) => (
  <SimpleGrid cols={{ base: 2, sm: Math.min(3, columns), lg: columns }} spacing="md">
    {Object.entries(of).map(([name, value]) => (
      <div key={name}>
        <Text size="xs" c="dimmed">
          {name}
        </Text>
        <Text size="sm" component="div" style={{ overflowWrap: "anywhere" }}>
          {value ?? "–"}
        </Text>
      </div>
    ))}
  </SimpleGrid>
);

/** One number that matters, and what it was before. */
export const Tile = ({ name, value, note }: { name: string; value: ReactNode; note?: ReactNode }) => (
  <Paper withBorder p="md">
    <Text size="sm" c="dimmed">
      {name}
    </Text>
    <Text size="xl" fw={700} style={{ fontVariantNumeric: "tabular-nums" }}>
      {value}
    </Text>
    {note && (
      <Text size="xs" c="dimmed" component="div">
        {note}
      </Text>
    )}
  </Paper>
);

/** A part of a screen with a heading. */
export const Section = ({
  title,
  actions,
  children,
}: {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
}) => (
  <Paper withBorder p="md" component="section">
    <Stack gap="sm">
      <Group justify="space-between">
        <Text component="h2" fw={600} m={0}>
          {title}
        </Text>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  </Paper>
);

type ConfirmProps = {
  /** On the button that opens the question. */
  label: string;
  title: string;
  /** What will happen. */
  children?: ReactNode;
  /** What has to be typed, for what cannot be undone. */
  name?: string;
  color?: string;
  variant?: string;
  size?: string;
  disabled?: boolean;
  onConfirm: () => Promise<unknown> | unknown;
};

/** A button that asks first; what destroys asks for the name. */
export const Confirm = ({
  label,
  title,
  children,
  name,
  color = "red",
  variant = "default",
  size = "xs",
  disabled = false,
  onConfirm,
}: ConfirmProps) => {
  const [opened, { open, close }] = useDisclosure(false);
  const [typed, setTyped] = useState("");
  const [isBusy, setBusy] = useState(false);
  const isReady = name === undefined || typed === name;
  const run = async () => {
    if (!isReady || isBusy) return;
    setBusy(true);
    try {
      await onConfirm();
      close();
      setTyped("");
    } catch {
      // What was called has told it.
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button size={size} variant={variant} onClick={open} disabled={disabled} aria-haspopup="dialog">
        {label}
      </Button>
      <Modal opened={opened} onClose={close} title={title}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void run();
          }}
        >
          <Stack>
            {children && (
              <Text size="sm" component="div">
                {children}
              </Text>
            )}
            {name !== undefined && (
              <TextInput
                label={
                  <>
                    Type <b>{name}</b> to confirm
                  </>
                }
                value={typed}
                onChange={(event) => setTyped(event.currentTarget.value)}
                autoComplete="off"
                data-autofocus
              />
            )}
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              <Button color={color} type="submit" loading={isBusy} disabled={!isReady}>
                {label}
              </Button>
            </Group>
          </Stack>
        </form>
      </Modal>
    </>
  );
};

export const Chips = ({ of }: { of: readonly string[] | undefined }) => (
  <Group gap={4}>
    {of?.map((one) => (
      <Badge key={one} color="gray">
        {one}
      </Badge>
    ))}
  </Group>
);

/** Whether what is shown is live. */
export const Live = ({ status, why }: { status: "joining" | "live" | "lost"; why?: string }) => (
  <Badge color={status === "live" ? "teal" : "yellow"}>
    {status === "live"
      ? "Live"
      : status === "joining"
        ? "Connecting"
        : `Connecting again${why ? `: ${why}` : ""}`}
  </Badge>
);
