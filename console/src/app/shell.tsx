import {
  ActionIcon,
  Alert,
  AppShell,
  Badge,
  Burger,
  Button,
  Group,
  Menu,
  Modal,
  NavLink,
  ScrollArea,
  Select,
  Stack,
  Text,
  Tooltip,
  UnstyledButton,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { Link, Redirect, Route, Switch, useLocation, useRoute } from "wouter";
import { callAny, credentials, onProofNeeded, type Row } from "../api/client.ts";
import {
  type Project,
  ProjectContext,
  change,
  signOut,
  tellError,
  useAccount,
  useApi,
  useCan,
} from "../api/hooks.ts";
import { moment, setZone } from "../format.ts";
import { Icon } from "../ui/icons.tsx";
import { ButtonSize, Empty, Page, Place, press, Waiting } from "../ui/page.tsx";
import { act, create } from "../ui/operations.tsx";
import { Palette } from "./palette.tsx";
import { FactorForm } from "../ui/sending.tsx";
import { type Screen, SCREENS, useScreens } from "./routes.ts";

const LAST = "laurel-last-project";

/** The frame around every screen of somebody who is signed in. */
export const Shell = () => {
  const [opened, { toggle, close }] = useDisclosure(false);
  const [path] = useLocation();
  const [, params] = useRoute("/p/:project/*?");
  const chosen = params?.project ?? localStorage.getItem(LAST) ?? undefined;
  const { data: found, error } = useApi("listProjects", { query: { limit: 100, include: "sandboxes" } });
  useEffect(close, [path]);
  if (!found && error) throw error;
  if (!found) return <Waiting />;
  const projects = found.data;
  const project = projects.find(({ id }) => id === chosen) ?? (params ? undefined : firstOf(projects));
  // Set while rendering, so that what is asked by the screens below names it.
  credentials.project = project?.id;
  setZone(project?.timezone ?? "UTC");
  if (project && params) localStorage.setItem(LAST, project.id);
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 230, breakpoint: "sm", collapsed: { mobile: !opened } }}
      padding="md"
    >
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <AppShell.Header>
        <Group h="100%" px="sm" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Navigation" />
            <Switcher projects={projects} project={project} />
          </Group>
          <Right />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Main">
        <ScrollArea viewportProps={{ tabIndex: 0 }}>
          <Navigation project={project} />
        </ScrollArea>
      </AppShell.Navbar>
      <AppShell.Main id="main">
        <Notices project={project} />
        <Screens project={project} />
      </AppShell.Main>
      <Palette project={project?.id} />
      <Proof />
    </AppShell>
  );
};

/** Where there is something to see: a demo has all of its events in the sandbox. */
const firstOf = (projects: Row<"listProjects">[]): Project | undefined => {
  const live = projects.filter(({ sandboxOf }) => sandboxOf === null);
  return [...live, ...projects].find(({ hasEvents }) => hasEvents) ?? live[0] ?? projects[0];
};

type Params = { project?: string };

const Screens = ({ project }: { project: Project | undefined }) => {
  const [path] = useLocation();
  const can = useCan();
  const shown = ({ component: Component, needs }: Screen, { project: id, ...params }: Params) => {
    if (id !== undefined && !project) return <NotThere />;
    if (needs && !can(needs)) return <NotYours />;
    return (
      <ProjectContext value={id === undefined ? undefined : project} key={id}>
        <Component {...params} />
      </ProjectContext>
    );
  };
  return (
    <Place key={path}>
      <Switch>
        {SCREENS.map((screen) => (
          <Route path={screen.path} key={screen.path}>
            {(params) => shown(screen, params)}
          </Route>
        ))}
        <Route path="/p/:project">{({ project: id }) => <Redirect to={`/p/${id}/start`} replace />}</Route>
        <Route path="/">
          {project ? <Redirect to={`/p/${project.id}/start`} replace /> : <NewProject isFirst />}
        </Route>
        <Route path="/new-project">
          <NewProject />
        </Route>
        {/* Links of mails name a screen alone, and mean the project that was open last. */}
        <Route path="/analytics/*?">
          {project ? <Redirect to={`/p/${project.id}${path}`} replace /> : <NotThere />}
        </Route>
        <Route>
          <NotThere />
        </Route>
      </Switch>
    </Place>
  );
};

const NotYours = () => (
  <Page title="Not open to your role">
    <Text size="md">An owner or administrator of your team can change your role.</Text>
  </Page>
);

const NotThere = () => (
  <Page title="There is no such page">
    <Button component={Link} href="/" w="fit-content">
      To the start
    </Button>
  </Page>
);

const NewProject = ({ isFirst = false }) => {
  const can = useCan();
  const [, go] = useLocation();
  return (
    <Page title={isFirst ? "Welcome to Laurel" : "New project"}>
      <Empty title="A project holds a game: its players, rules and boards">
        {can("createProject")
          ? create("createProject", isFirst ? "Create your first project" : "Create a project", {
              first: ["name", "timezone"],
              initial: { timezone: Intl.DateTimeFormat().resolvedOptions().timeZone },
              done: "Your project is there",
              onDone: ({ id }) => go(`/p/${id}/start`),
            })
          : "An owner or administrator of your team creates it."}
      </Empty>
    </Page>
  );
};

/** Chooses the project, and whether one sees its sandbox or what is live. */
const Switcher = ({ projects, project }: { projects: Project[]; project: Project | undefined }) => {
  const [path, go] = useLocation();
  const find = (id: string | null | undefined) => projects.find((one) => one.id === id);
  const here = path.match(/^\/p\/[^/]+(\/[^/]+)/)?.[1] ?? "/start";
  const goTo = (id: string) => go(`/p/${id}${here}`);
  const isSandbox = project?.sandboxOf != null;
  const twin = find(project?.sandboxOf ?? project?.sandboxProjectId);
  const live = isSandbox && twin ? twin : project;
  const side = { color: isSandbox ? "violet" : "teal", children: isSandbox ? "Sandbox" : "Live" };
  return (
    <Group gap="xs" wrap="nowrap">
      <Select
        aria-label="Project"
        size="xs"
        w={{ base: 110, sm: 180 }}
        searchable
        allowDeselect={false}
        placeholder="Project"
        data={projects
          .filter(({ sandboxOf }) => !find(sandboxOf))
          .map(({ id, name }) => ({ value: id, label: name }))}
        value={live?.id ?? null}
        onChange={(id) => id && goTo(id)}
      />
      {project && (
        <Tooltip
          label={isSandbox ? "A copy to try things in: nothing here reaches players" : "What players see"}
        >
          {twin ? (
            <Button
              {...side}
              size="compact-xs"
              variant="light"
              onClick={() => goTo(twin.id)}
              aria-label={isSandbox ? "Sandbox: go to live" : "Live: go to the sandbox"}
            />
          ) : (
            <Badge {...side} />
          )}
        </Tooltip>
      )}
      {project?.sandboxOf == null && project?.sandboxProjectId === null && (
        <span className="mantine-visible-from-sm">
          <ButtonSize value="compact-xs">
            {act("createSandbox", "Make a sandbox", {
              path: { projectId: project.id },
              done: "The sandbox is there",
            })}
          </ButtonSize>
        </span>
      )}
    </Group>
  );
};

const Right = () => {
  const { user, tenant } = useAccount();
  const can = useCan();
  const { toggleColorScheme } = useMantineColorScheme();
  const isDark = useComputedColorScheme("light") === "dark";
  const [, go] = useLocation();
  return (
    <Group gap={6} wrap="nowrap">
      <Tooltip label="Search and commands (Ctrl K)">
        <ActionIcon
          variant="default"
          size="lg"
          aria-label="Search"
          onClick={() => void import("@mantine/spotlight").then(({ spotlight }) => spotlight.open())}
        >
          <Icon name="search" />
        </ActionIcon>
      </Tooltip>
      <Menu position="bottom-end">
        <Menu.Target>
          <UnstyledButton p={6}>
            <span className="skip">Your account</span>
            <Text visibleFrom="sm" maw={160} truncate>
              {user.name || user.email}
            </Text>
            <span className="mantine-hidden-from-sm">
              <Icon name="players" />
            </span>
          </UnstyledButton>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>{`${tenant.name} · ${user.role.toLowerCase()}`}</Menu.Label>
          <Menu.Item onClick={() => go("/account")}>Your account</Menu.Item>
          {can("createProject") && <Menu.Item onClick={() => go("/new-project")}>New project</Menu.Item>}
          <Menu.Item onClick={toggleColorScheme}>{isDark ? "Light colours" : "Dark colours"}</Menu.Item>
          <Menu.Item component="a" href="/docs" target="_blank">
            API reference
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item onClick={() => void signOut()}>Sign out</Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </Group>
  );
};

const Navigation = ({ project }: { project: Project | undefined }) => {
  const [path] = useLocation();
  const screens = useScreens(project?.id);
  const groups = new Set(screens.map(({ group }) => group));
  return (
    <Stack gap="xs">
      {[...groups].map((group) => (
        <div key={group}>
          <Text size="xs" c="dimmed" fw={600} px="xs">
            {group}
          </Text>
          {screens.map(
            ({ to, title, icon, group: itsGroup }) =>
              icon &&
              group === itsGroup && (
                <NavLink
                  key={to}
                  component={Link}
                  href={to}
                  label={title}
                  leftSection={<Icon name={icon} />}
                  active={path === to || path.startsWith(`${to}/`)}
                  {...(path === to ? { "aria-current": "page" as const } : {})}
                  py={6}
                />
              ),
          )}
        </div>
      ))}
    </Stack>
  );
};

/** What everybody of the team should know on every screen. */
const Notices = ({ project }: { project: Project | undefined }) => {
  const { user, tenant } = useAccount();
  const can = useCan();
  const asked = { body: { email: user.email } as never };
  // Open to everybody, and so among nobody's permissions.
  const resend = () => void change("resendVerification", asked, "Sent: look into your mail").catch(tellError);
  return (
    <Stack gap="xs" mb="sm" maw={1400}>
      {user.mustVerifyEmail && (
        <Alert color="yellow" title="Your email address is not verified yet">
          <Text mb="xs">Follow the link in the mail to {user.email}. Live keys and invitations wait.</Text>
          {press("Send the mail again", resend)}
        </Alert>
      )}
      {user.status === "PENDING" && (
        <Alert color="yellow" title="An owner or administrator of the team has not accepted you yet" />
      )}
      {tenant.approvalStatus !== "APPROVED" && (
        <Alert
          color={tenant.approvalStatus === "PENDING" ? "yellow" : "red"}
          title={`Your account is ${tenant.approvalStatus.toLowerCase()}`}
        >
          {tenant.approvalStatus === "PENDING"
            ? "Whoever runs this server approves it. Until then you can build everything in a sandbox; live keys come with the approval."
            : "Ask whoever runs this server."}
        </Alert>
      )}
      {project?.sandboxOf != null && can("getSandboxClock") && <Clock project={project} />}
    </Stack>
  );
};

/** The sandbox may live in the future, where seasons end and streaks break. */
const Clock = ({ project }: { project: Project }) => {
  const { data } = useApi("getSandboxClock", { path: { projectId: project.sandboxOf! } });
  if (!data || data.aheadSeconds === 0) return null;
  return (
    <Alert color="violet" title="This sandbox lives in the future">
      {`Its clock shows ${moment(data.now)}.`}
    </Alert>
  );
};

/** Asks for the second factor again when the server wants it, and then lets go on what was begun. */
const Proof = () => {
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
