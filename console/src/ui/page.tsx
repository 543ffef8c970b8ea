import { Alert, Anchor, Button, Code, Group, Skeleton, Stack, Text, Title } from "@mantine/core";
import { Component, type ReactNode, useEffect, useRef } from "react";
import { Link, useLocation } from "wouter";
import { ApiError } from "../api/client.ts";
import { useTo } from "../app/project.ts";
import { ButtonSize, CopyIcon } from "./small.tsx";

type PageProps = {
  title: string;
  /** What stands beside the title: buttons. */
  actions?: ReactNode;
  /** One sentence under the title. */
  about?: ReactNode;
  /** The screen of the project that this page is below: its title and path. */
  parent?: [title: string, path: string];
  children: ReactNode;
};

/** A screen: names the tab, and takes the focus when somebody comes to it. */
export const Page = ({ title, actions, about, parent, children }: PageProps) => {
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
        {about && (
          <Text c="dimmed" size="sm">
            {about}
          </Text>
        )}
      </div>
      {children}
    </Stack>
  );
};

/** What went wrong, and what to tell whoever runs the server. */
export const ErrorNote = ({ error, onRetry }: { error: unknown; onRetry?: () => void }) => {
  if (error == null) return null;
  const api = error instanceof ApiError ? error : undefined;
  const told = api?.details.filter(({ message }) => !api.message.includes(message)) ?? [];
  return (
    <Alert color="red" title={api?.message ?? String(error)} role="alert">
      <Stack gap="xs" align="flex-start">
        {told.map(({ field, message }) => (
          <Text size="sm" key={`${field} ${message}`}>
            <Code>{field}</Code> {message}
          </Text>
        ))}
        {api?.requestId && (
          <Group gap={4}>
            <Text size="xs">Request {api.requestId}</Text>
            <CopyIcon value={api.requestId} label="Copy the request ID" />
          </Group>
        )}
        {onRetry && (
          <Button size="xs" variant="default" onClick={onRetry}>
            Try again
          </Button>
        )}
      </Stack>
    </Alert>
  );
};

/** Nothing here yet, and what to do about it. */
export const Empty = ({ title, children }: { title: string; children?: ReactNode }) => (
  <Stack align="center" py="xl" gap="xs">
    <Text fw={600}>{title}</Text>
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
  lines?: number;
  children: (data: NonNullable<T>) => ReactNode;
};

/** Shows a skeleton, then the answer or the error. */
export const Loaded = <T,>({ query, lines = 6, children }: LoadedProps<T>) => {
  if (query.data != null) return <>{children(query.data)}</>;
  if (query.error) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <Stack gap="xs" aria-busy>
      {Array.from({ length: lines }, (_, index) => (
        <Skeleton key={index} height={24} width={`${90 - (index % 3) * 15}%`} />
      ))}
    </Stack>
  );
};

/** Keeps the rest of the console when a screen throws. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <Page title="This screen has failed">
        <ErrorNote error={this.state.error} onRetry={() => location.reload()} />
      </Page>
    );
  }
}
