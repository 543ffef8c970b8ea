import {
  ActionIcon,
  Alert,
  Badge,
  Button,
  Code,
  CopyButton,
  Group,
  Paper,
  Stack,
  Text,
  Tooltip,
} from "@mantine/core";
import { createContext, type ReactNode } from "react";
import { Link } from "wouter";
import { useTo } from "../app/project.ts";
import { ago, moment, number, words } from "../format.ts";
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

type WhenProps = { at: string | null | undefined; never?: string };

/** How long ago, with the exact time under the pointer. */
export const When = ({ at, never = "–" }: WhenProps) =>
  at == null ? (
    never
  ) : (
    <Tooltip label={moment(at)}>
      <time dateTime={at}>{ago(at)}</time>
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

/** An ID or a code that people take elsewhere. */
export const Copied = ({ value }: { value: string }) => (
  <>
    <span className="mono">{value}</span> <CopyIcon value={value} />
  </>
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

/** How large buttons are where they stand: below a title, in a part of a screen, in a row of a table. */
export const ButtonSize = createContext("xs");

/** JSON on one line, as far as there is room. */
export const JsonLine = ({ value }: { value: unknown }) => (
  <Text className="mono" maw={450} truncate>
    {JSON.stringify(value)}
  </Text>
);

/** A button that leads to another screen of the project. */
export const LinkButton = ({ to, children }: { to: string; children: ReactNode }) => (
  <Button component={Link} href={useTo()(to)} size="xs" variant="default" w="fit-content">
    {children}
  </Button>
);

/** One number that matters, and what it was before. */
export const Tile = ({ name, value, note }: { name: string; value: ReactNode; note?: ReactNode }) => (
  <Paper withBorder p="md">
    <Text size="sm" c="dimmed">
      {name}
    </Text>
    <Text size="xl" fw={700} style={{ fontVariantNumeric: "tabular-nums" }}>
      {typeof value === "number" ? number(value) : (value ?? "–")}
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
        <Group gap="xs">{actions}</Group>
      </Group>
      {children}
    </Stack>
  </Paper>
);

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
