import {
  ActionIcon,
  Alert,
  Anchor,
  Badge,
  Button,
  Center,
  Code,
  CopyButton,
  Group,
  Loader,
  Modal,
  Paper,
  SimpleGrid,
  Skeleton,
  Stack,
  Tabs,
  Text,
  Title,
  Tooltip,
} from "@mantine/core";
import { Component, createContext, type ReactNode, Suspense, useContext, useEffect, useRef } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { ApiError } from "../api/client.ts";
import { queryClient, useGo, useTo } from "../api/hooks.ts";
import { ago, moment, number, words } from "../format.ts";
import { Icon } from "./icons.tsx";

type PageProps = {
  title: string;
  /** What stands beside the title: buttons. */
  actions?: ReactNode;
  /** One sentence under the title. */
  about?: ReactNode;
  /** The screen of the project that this page is below: its title and path. */
  parent?: [title: string, path: string];
  /** Its parts, if it has tabs, and which one is open, as `Pages` has them. */
  pages?: TabPages;
  at?: string;
  open?: string | undefined;
  children?: ReactNode;
};

/** A screen: names the tab, and takes the focus when somebody comes to it. */
export const Page = ({ title, actions, about, parent, pages, at, open, children }: PageProps) => {
  const heading = useRef<HTMLHeadingElement>(null);
  const [path] = useLocation();
  const to = useTo();
  useEffect(() => {
    document.title = `${title} · Laurel`;
  }, [title]);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [path]);
  return (
    <Stack gap="md" maw={1400}>
      <div>
        {parent && (
          <Anchor component={Link} href={to(parent[1])} size="sm">
            {parent[0]}
          </Anchor>
        )}
        <Group justify="space-between" align="flex-start" gap="sm">
          <Title order={1} size="h2" ref={heading} tabIndex={-1}>
            {title}
          </Title>
          <ButtonSize value="sm">
            <Group gap="xs">{actions}</Group>
          </ButtonSize>
        </Group>
        {about && <Text c="dimmed">{about}</Text>}
      </div>
      <Part>{children}</Part>
      {pages && <Pages pages={pages} at={at} open={open} />}
    </Stack>
  );
};

/** What went wrong, and what to tell whoever runs the server. */
export const ErrorNote = ({ error, onRetry }: { error: unknown; onRetry?: () => void }) => {
  if (error == null) return null;
  const api = error instanceof ApiError ? error : undefined;
  const told = api?.details.filter(({ message }) => !api.message.includes(message)) ?? [];
  return (
    <Alert color="red" title={error instanceof Error ? error.message : String(error)} role="alert">
      <Stack gap="xs" align="flex-start">
        {told.map(({ field, message }) => (
          <Text key={`${field} ${message}`}>
            <Code>{field}</Code> {message}
          </Text>
        ))}
        {api?.requestId && (
          <Group gap={4}>
            <Text size="xs">Request {api.requestId}</Text>
            <CopyIcon value={api.requestId} label="Copy the request ID" />
          </Group>
        )}
        {onRetry && press("Try again", onRetry)}
      </Stack>
    </Alert>
  );
};

/** Nothing here yet, and what to do about it. */
export const Empty = ({ title, children }: { title: string; children?: ReactNode }) => (
  <Stack align="center" py="xl" gap="xs">
    <Text size="md" fw={600}>
      {title}
    </Text>
    {children && (
      <Stack align="center" gap="xs" c="dimmed" fz="sm" ta="center">
        <ButtonSize value="sm">{children}</ButtonSize>
      </Stack>
    )}
  </Stack>
);

type LoadedProps<T> = {
  query: { data: T | undefined; error: unknown; refetch: () => unknown };
  /** Lines of the skeleton. */
  lines?: number | undefined;
  children: (data: NonNullable<T>) => ReactNode;
};

/** Shows a skeleton, then the answer or the error. */
export const Loaded = <T,>({ query, lines = 6, children }: LoadedProps<T>) => {
  if (query.data != null) return <>{children(query.data)}</>;
  if (query.error) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  return <Bones lines={lines} />;
};

/** What stands where an answer will. */
const Bones = ({ lines = 6 }: { lines?: number | undefined }) => (
  <Stack gap="xs" aria-busy>
    {Array.from({ length: lines }, (_, index) => (
      <Skeleton key={index} height={24} width={`${90 - (index % 3) * 15}%`} />
    ))}
  </Stack>
);

/** Until a screen is there. */
export const Waiting = () => (
  <Center h="50vh">
    <Loader aria-label="Loading" />
  </Center>
);

type BoundaryProps = { children: ReactNode; show: (error: unknown, retry: () => void) => ReactNode };

/** Keeps the rest of the console when a part of it throws, such as by what the server answers to `useRead`. */
class Boundary extends Component<BoundaryProps, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    const { children, show } = this.props;
    if (this.state.error === undefined) return children;
    const retry = () => {
      void queryClient.resetQueries({ predicate: ({ state }) => state.status === "error" });
      this.setState({ error: undefined });
    };
    return show(this.state.error, retry);
  }
}

/** Where a screen stands: its place while it loads, and what went wrong with it. */
export const Place = ({ children }: { children: ReactNode }) => (
  <Boundary
    show={(error, retry) => {
      const isMissing = error instanceof ApiError && error.status === 404;
      const title = isMissing ? "It is not there" : "This screen has failed";
      return (
        <Page title={title} actions={press("Go back", () => history.back())}>
          <ErrorNote error={error} onRetry={error instanceof ApiError ? retry : () => location.reload()} />
        </Page>
      );
    }}
  >
    <Suspense fallback={<Waiting />}>{children}</Suspense>
  </Boundary>
);

/** A part of a screen, which waits for its answers and tells its errors by itself. */
export const Part = ({ lines, children }: { lines?: number | undefined; children: ReactNode }) => (
  <Boundary show={(error, retry) => <ErrorNote error={error} onRetry={retry} />}>
    <Suspense fallback={<Bones lines={lines} />}>{children}</Suspense>
  </Boundary>
);

type DialogProps = {
  title: ReactNode;
  onClose: () => void;
  size?: string;
  isOpen: boolean;
  /** Called for what a dialogue shows, once it is open. */
  children: () => ReactNode;
};

export const Dialog = ({ title, onClose, size = "xl", isOpen, children }: DialogProps) => (
  <Modal opened={isOpen} onClose={onClose} title={title} size={size}>
    {isOpen && <Part>{children()}</Part>}
  </Modal>
);

const STATES = {
  teal: "ACTIVE PUBLISHED PROCESSED DELIVERED APPROVED VERIFIED COMPLETED SUCCEEDED DONE SENT",
  blue: "OPEN RUNNING",
  yellow: "PENDING QUEUED",
  orange: "PAUSED REVERTED",
  violet: "SHADOW",
  red: "FAILED REJECTED SUSPENDED BANNED",
};

const colourOf = (state: string): string =>
  Object.entries(STATES).find(([, states]) => states.split(" ").includes(state))?.[0] ?? "gray";

/** A state as a dot and words. */
export const Status = ({ value }: { value: string | null | undefined }) =>
  value == null ? (
    "–"
  ) : (
    <span style={{ whiteSpace: "nowrap" }}>
      <span className="dot" style={{ background: `var(--mantine-color-${colourOf(value)}-6)` }} />
      {words(value)}
    </span>
  );

/** What is said beside what matters. */
export const Hint = ({ size = "sm", children }: { size?: string; children: ReactNode }) => (
  <Text size={size} c="dimmed" component="div">
    {children}
  </Text>
);

/** A name, and under it what tells two of the same name apart. */
export const Named = ({ name, more }: { name: ReactNode; more?: ReactNode }) => (
  <>
    <Text fw={500}>{name}</Text>
    {more && <Hint size="xs">{more}</Hint>}
  </>
);

/** How long ago, with the exact time under the pointer. */
export const When = ({ at, never = "–" }: { at: string | null | undefined; never?: string }) =>
  at == null ? (
    never
  ) : (
    <Tooltip label={moment(at)}>
      <time dateTime={at}>{ago(at)}</time>
    </Tooltip>
  );

const CopyIcon = ({ value, label = "Copy" }: { value: string; label?: string }) => (
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
    {value} <CopyIcon value={value} />
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

type SecretProps = { title: string; value: string; children?: ReactNode };

/** A secret that the server shows once. */
export const SecretOnce = ({ title, value, children }: SecretProps) => (
  <Alert color="yellow" title={title}>
    <Stack gap="xs">
      <Text>Keep it now: it is not shown again.</Text>
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

type PressOptions = {
  key?: string | number;
  isMain?: boolean | undefined;
  loading?: boolean;
  disabled?: boolean;
  /** Whether it opens a dialogue. */
  opens?: boolean;
};
type PressProps = Omit<PressOptions, "key"> & { label: string; onClick: () => void };

const Press = ({ label, isMain = false, opens = false, ...button }: PressProps) => (
  <Button
    {...button}
    {...(opens ? { "aria-haspopup": "dialog" } : {})}
    size={useContext(ButtonSize)}
    variant={isMain ? "filled" : "default"}
  >
    {label}
  </Button>
);

/** A button, as large as is usual where it stands. */
export const press = (label: string, onClick: () => void, options: PressOptions = {}): ReactNode => {
  const { key = label, ...rest } = options;
  return <Press key={key} label={label} onClick={onClick} {...rest} />;
};

/** Inputs, and the buttons that belong to them. */
export const Inline = ({ children }: { children: ReactNode }) => (
  <ButtonSize value="sm">
    <Group align="flex-end">{children}</Group>
  </ButtonSize>
);

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

type Value = string | number | null | undefined;
type Told = Value | [value: Value, note: ReactNode];

/** Numbers that matter, by their names, each with what it was before; undefined: there is no such number here. */
export const Tiles = ({ of, columns = 4 }: { of: Record<string, Told>; columns?: number }) => (
  <SimpleGrid cols={{ base: 2, md: columns }}>
    {Object.entries(of).map(([name, told]) => {
      const [value, note] = Array.isArray(told) ? told : [told];
      if (value === undefined) return null;
      return (
        <Paper withBorder p="md" key={name}>
          <Hint>{name}</Hint>
          <Text size="xl" fw={700} className="tile">
            {typeof value === "number" ? number(value) : (value ?? "–")}
          </Text>
          {note && <Hint size="xs">{note}</Hint>}
        </Paper>
      );
    })}
  </SimpleGrid>
);

/** Numbers by names of the API as tiles, each with a note. */
export const tilesOf = (of: object, note: (value: number) => string = () => ""): Record<string, Told> =>
  Object.fromEntries(Object.entries(of).map(([name, value]) => [words(name), [value, note(value)]]));

type SectionProps = { title: string; actions?: ReactNode; children?: ReactNode };

/** A part of a screen with a heading. */
export const Section = ({ title, actions, children }: SectionProps) => (
  <Paper withBorder p="md" component="section">
    <Stack gap="sm">
      <Group justify="space-between">
        <Text component="h2" size="md" fw={600} m={0}>
          {title}
        </Text>
        <Group gap="xs">{actions}</Group>
      </Group>
      {children && <Part lines={3}>{children}</Part>}
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
export const Live = ({ status, why }: { status: "joining" | "live" | "lost"; why?: string }) => {
  const lost = `Connecting again${why ? `: ${why}` : ""}`;
  const text = { live: "Live", joining: "Connecting", lost }[status];
  return <Badge color={status === "live" ? "teal" : "yellow"}>{text}</Badge>;
};

/** A tab: its title, and what it shows; false: not for this person. */
export type TabPages = Record<string, false | [title: string, show: () => ReactNode]>;

type PagesProps = {
  pages: TabPages;
  /** The path of the screen, below which each tab but the first has its own; without it the address holds `tab`. */
  at?: string | undefined;
  open?: string | undefined;
};

/** Parts of a screen, of which one is shown; the first unless the address says otherwise. */
export const Pages = ({ pages, at, open }: PagesProps) => {
  const entries = Object.entries(pages).flatMap(([name, page]) => (page ? [{ name, page }] : []));
  const first = entries[0]?.name ?? "";
  const [params, setParams] = useSearchParams();
  const go = useGo();
  const wanted = at === undefined ? params.get("tab") : open;
  const { name: shown, page } = entries.find(({ name }) => name === wanted) ?? entries[0]!;
  const goTo = (name: string | null) => {
    // Without the filters of the part that one leaves: another may have the same names.
    if (at === undefined) setParams(name === first ? {} : { tab: name ?? "" }, { replace: true });
    else go(name === first ? at : `${at}/${name}`);
  };
  return (
    <Tabs value={shown} onChange={goTo} keepMounted={false}>
      <Tabs.List mb="sm">
        {entries.map(({ name, page: [title] }) => (
          <Tabs.Tab key={name} value={name}>
            {title}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value={shown} key={shown}>
        <Part>{page[1]()}</Part>
      </Tabs.Panel>
    </Tabs>
  );
};
