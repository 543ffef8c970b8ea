import { Act } from "../ui/act.tsx";
import {
  Alert,
  Anchor,
  Button,
  Container,
  Group,
  Modal,
  PasswordInput,
  SimpleGrid,
  Stack,
  Tabs,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useState } from "react";
import { Link, useLocation, useRoute } from "wouter";
import { ApiError, call, callAny } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { type Admin, signInAdmin, signOut, useSession } from "../api/session.ts";
import { number, words } from "../format.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Copyable, Facts, Section, Status, Tile, When } from "../ui/small.tsx";
import { List } from "../ui/table.tsx";
import { useSending } from "../ui/sending.ts";
import { SecondFactor } from "./auth.tsx";
import { Rooms, Addresses, Mails, Tokens, Blog, Audit } from "./platform.tsx";

/** Whoever runs the platform has an account of their own, which belongs to no tenant. */
export const SuperAdmin = () => {
  const session = useSession();
  if (session.status !== "admin") return <Login />;
  return <Frame admin={session.admin} />;
};

const Login = () => {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [challenge, setChallenge] = useState<ApiError["challenge"]>();
  const { error, isBusy, send } = useSending();
  const complete = async (answer: object) =>
    signInAdmin(await callAny("completeSuperadminLogin", { body: answer }));
  if (challenge)
    return <SecondFactor challenge={challenge} onBack={() => setChallenge(undefined)} complete={complete} />;
  const logIn = send(async () => {
    try {
      await signInAdmin(await call("superadminLogin", { body: { email, password } }));
    } catch (failure) {
      if (failure instanceof ApiError && failure.challenge) return setChallenge(failure.challenge);
      throw failure;
    }
  });
  return (
    <Container size={420} py="xl" component="main">
      <Stack>
        <Title order={1} size="h3">
          Platform
        </Title>
        <Text size="sm" c="dimmed">
          For whoever runs this server. A reload signs you out.
        </Text>
        <form onSubmit={logIn}>
          <Stack gap="sm">
            <TextInput
              label="Email"
              type="email"
              value={email}
              onChange={(event) => setEmail(event.currentTarget.value)}
              required
              autoFocus
            />
            <PasswordInput
              label="Password"
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
              required
            />
            {error !== undefined && <ErrorNote error={error} />}
            <Button type="submit" loading={isBusy}>
              Sign in
            </Button>
          </Stack>
        </form>
        <Anchor component={Link} href="/login" size="sm">
          To the console of your team
        </Anchor>
      </Stack>
    </Container>
  );
};

const TABS: Record<string, { title: string; component: () => React.ReactNode }> = {
  tenants: { title: "Tenants", component: () => <Tenants /> },
  users: { title: "Users", component: () => <Users /> },
  rooms: { title: "Rooms and processes", component: () => <Rooms /> },
  addresses: { title: "Blocked addresses", component: () => <Addresses /> },
  mails: { title: "Mails", component: () => <Mails /> },
  tokens: { title: "Tokens", component: () => <Tokens /> },
  blog: { title: "Blog", component: () => <Blog /> },
  audit: { title: "Audit log", component: () => <Audit /> },
  account: { title: "Your account", component: () => <Account /> },
};

const Frame = ({ admin }: { admin: Admin }) => {
  const [, params] = useRoute("/superadmin/:tab");
  const [, go] = useLocation();
  const tab = params?.tab && Object.hasOwn(TABS, params.tab) ? params.tab : "tenants";
  return (
    <Container size="xl" py="md" component="main">
      <Page
        title="Platform"
        about={admin.email}
        actions={
          <Button variant="default" onClick={() => void signOut()}>
            Sign out
          </Button>
        }
      >
        {!admin.mfaEnabled && (
          <Alert color="yellow" title="Your account has no second factor">
            <Anchor component={Link} href="/superadmin/account" size="sm">
              Set one up
            </Anchor>
          </Alert>
        )}
        <Tabs value={tab} onChange={(next) => go(`/superadmin/${next}`)}>
          <Tabs.List>
            {Object.entries(TABS).map(([name, { title }]) => (
              <Tabs.Tab key={name} value={name}>
                {title}
              </Tabs.Tab>
            ))}
          </Tabs.List>
        </Tabs>
        <div key={tab}>{TABS[tab]!.component()}</div>
      </Page>
    </Container>
  );
};

const Tenants = () => {
  const stats = useApi("getPlatformStats");
  const [open, setOpen] = useState<string>();
  return (
    <Stack>
      <Loaded query={stats} lines={2}>
        {({ tenants, users, projects, activeKeys, mail }) => (
          <SimpleGrid cols={{ base: 2, md: 5 }}>
            <Tile
              name="Tenants"
              value={number(tenants.total)}
              note={`${number(tenants.byApprovalStatus.PENDING)} wait for approval`}
            />
            <Tile name="Users" value={number(users)} />
            <Tile name="Projects" value={number(projects)} />
            <Tile name="Active keys" value={number(activeKeys)} />
            <Tile
              name="Mails that wait"
              value={number(mail.queued)}
              note={`${number(mail.failedLastDay)} failed in a day`}
            />
          </SimpleGrid>
        )}
      </Loaded>
      <List
        id="listPlatformTenants"
        name="Tenants"
        filters={["search", "approvalStatus", "plan"]}
        onRow={({ id }) => setOpen(id)}
        columns={[
          { title: "Tenant", cell: ({ name }) => name },
          { title: "Approval", cell: ({ approvalStatus }) => <Status value={approvalStatus} /> },
          { title: "Plan", cell: ({ plan }) => words(plan) },
          {
            title: "Asked",
            cell: ({ approvalRequestedAt }) => <When at={approvalRequestedAt} />,
            isWideOnly: true,
          },
          { title: "Since", cell: ({ createdAt }) => <When at={createdAt} /> },
        ]}
        actions={({ id, approvalStatus }) =>
          approvalStatus === "PENDING" && (
            <Act id="approveTenant" path={{ tenantId: id }} done="Approved" isMain>
              Approve
            </Act>
          )
        }
      />
      <Modal opened={open !== undefined} onClose={() => setOpen(undefined)} title="Tenant" size="xl">
        {open && <Tenant tenantId={open} />}
      </Modal>
    </Stack>
  );
};

const Tenant = (path: { tenantId: string }) => {
  const tenant = useApi("getPlatformTenant", { path });
  return (
    <Loaded query={tenant}>
      {(data) => (
        <Stack>
          <Facts
            of={{
              Name: data.name,
              Approval: <Status value={data.approvalStatus} />,
              Reason: data.approvalReason,
              Plan: words(data.plan),
              Since: <When at={data.createdAt} />,
              ID: <span className="mono">{data.id}</span>,
            }}
          />
          <Group gap="xs">
            {data.approvalStatus !== "APPROVED" && data.approvalStatus !== "SUSPENDED" && (
              <Act id="approveTenant" path={path} done="Approved" size="xs" isMain>
                Approve
              </Act>
            )}
            {data.approvalStatus === "PENDING" && (
              <FormButton
                id="rejectTenant"
                path={path}
                label="Reject"
                size="xs"
                variant="default"
                submit="Reject"
                done="Rejected"
              />
            )}
            {data.approvalStatus === "SUSPENDED" ? (
              <Act id="unsuspendTenant" path={path} done="Let in again" size="xs">
                Let in again
              </Act>
            ) : (
              <FormButton
                id="suspendTenant"
                path={path}
                label="Suspend"
                size="xs"
                variant="default"
                about="Its keys and players are refused within seconds. Its owner is told the reason."
                submit="Suspend"
                done="Suspended"
              />
            )}
          </Group>
          <Section title="Plan and limits">
            <OperationForm
              id="updatePlatformTenant"
              path={path}
              initial={{ plan: data.plan, planOverrides: data.planOverrides ?? undefined }}
              first={["plan", "planOverrides"]}
            />
          </Section>
        </Stack>
      )}
    </Loaded>
  );
};

const Users = () => {
  return (
    <List
      id="listPlatformUsers"
      name="Users"
      filters={["search", "status", "disabled"]}
      columns={[
        { title: "Name", cell: ({ name }) => name },
        { title: "Email", cell: ({ email }) => email },
        { title: "Role", cell: ({ role }) => words(role) },
        {
          title: "Status",
          cell: ({ status, disabledAt }) => <Status value={disabledAt ? "SUSPENDED" : status} />,
        },
        { title: "Second factor", cell: ({ mfaEnabled }) => (mfaEnabled ? "yes" : "no"), isWideOnly: true },
        { title: "Last sign-in", cell: ({ lastLoginAt }) => <When at={lastLoginAt} /> },
      ]}
      actions={({ id, disabledAt, mfaEnabled }) => (
        <>
          {disabledAt ? (
            <Act id="enableUser" path={{ userId: id }} done="Let in again">
              Let in again
            </Act>
          ) : (
            <FormButton
              id="disableUser"
              path={{ userId: id }}
              label="Shut out"
              size="compact-xs"
              variant="default"
              submit="Shut out"
              done="Shut out"
            />
          )}
          {mfaEnabled && (
            <FormButton
              id="resetUserMfa"
              path={{ userId: id }}
              label="Reset second factor"
              size="compact-xs"
              variant="default"
              submit="Reset"
              done="Reset"
            />
          )}
        </>
      )}
    />
  );
};

const Account = () => {
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [secret, setSecret] = useState<string>();
  const [recovery, setRecovery] = useState<string[]>();
  const { error, isBusy, send } = useSending();
  const begin = send(async () =>
    setSecret((await callAny("setUpSuperadminTotp", { body: { currentPassword: password } })).secret),
  );
  const enable = send(async () => {
    const { recoveryCodes, login } = await callAny("enableSuperadminTotp", { body: { code: code.trim() } });
    setRecovery(recoveryCodes);
    setSecret(undefined);
    if (login) await signInAdmin(login);
  });
  return (
    <Stack>
      <Section title="Password">
        <Group>
          <FormButton
            id="superadminChangePassword"
            label="Change the password"
            size="xs"
            variant="default"
            submit="Change"
            done="Changed"
          />
        </Group>
      </Section>
      <Section title="Second factor">
        {recovery && (
          <Alert color="yellow" title="Your recovery codes">
            <Copyable value={recovery.join("\n")} />
          </Alert>
        )}
        <Group align="flex-end">
          <PasswordInput
            label="Your password"
            value={password}
            onChange={(event) => setPassword(event.currentTarget.value)}
            w={220}
          />
          {secret === undefined ? (
            <Button variant="default" onClick={() => begin()} loading={isBusy}>
              Use an app
            </Button>
          ) : (
            <>
              <TextInput
                label="Code of your app"
                value={code}
                onChange={(event) => setCode(event.currentTarget.value)}
              />
              <Button onClick={() => enable()} loading={isBusy}>
                Switch it on
              </Button>
            </>
          )}
        </Group>
        {secret !== undefined && <Copyable value={secret} />}
        {error !== undefined && <ErrorNote error={error} />}
      </Section>
    </Stack>
  );
};
