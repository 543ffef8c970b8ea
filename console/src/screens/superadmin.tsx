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
import { useAct, useApi } from "../api/hooks.ts";
import { type Admin, signInAdmin, signOut, useSession } from "../api/session.ts";
import { bytes, number, words } from "../format.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { Empty, ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Copyable, Facts, Json, SecretOnce, Section, Status, Tile, When } from "../ui/small.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { useSending } from "../ui/sending.ts";
import { SecondFactor } from "./auth.tsx";

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
  const tab = params?.tab && TABS[params.tab] ? params.tab : "tenants";
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
  const approve = useAct("approveTenant", { done: "Approved" });
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
            <Button size="compact-xs" onClick={() => approve.mutate({ path: { tenantId: id } })}>
              Approve
            </Button>
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
  const approve = useAct("approveTenant", { done: "Approved" });
  const unsuspend = useAct("unsuspendTenant", { done: "Let in again" });
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
              <Button size="xs" onClick={() => approve.mutate({ path })}>
                Approve
              </Button>
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
              <Button size="xs" variant="default" onClick={() => unsuspend.mutate({ path })}>
                Let in again
              </Button>
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
  const enable = useAct("enableUser", { done: "Let in again" });
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
            <Button
              size="compact-xs"
              variant="default"
              onClick={() => enable.mutate({ path: { userId: id } })}
            >
              Let in again
            </Button>
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

const Rooms = () => {
  const processes = useApi("listLiveProcesses", {}, { refetchInterval: 5_000 });
  const [open, setOpen] = useState<string>();
  return (
    <Stack>
      <Section title="Processes">
        <Loaded query={processes}>
          {({ data }) => (
            <PlainTable
              name="Processes"
              rows={data}
              keyOf={({ processId }) => processId}
              columns={[
                {
                  title: "Process",
                  cell: ({ host, pid, processId }) => (host ? `${host}, ${pid}` : processId),
                },
                { title: "Does", cell: ({ roles }) => roles?.join(", ") },
                { title: "Version", cell: ({ version }) => version, isWideOnly: true },
                { title: "Rooms", cell: ({ rooms }) => number(sum(rooms)), isNumber: true },
                { title: "Clients", cell: ({ clients }) => number(sum(clients)), isNumber: true },
                {
                  title: "Memory",
                  cell: ({ memory }) => (memory ? bytes(memory.rssBytes) : "–"),
                  isNumber: true,
                },
                { title: "Answers", cell: ({ isAnswering }) => (isAnswering ? "yes" : "no") },
              ]}
            />
          )}
        </Loaded>
      </Section>
      <Section title="Rooms">
        <List
          id="listLiveRooms"
          name="Rooms"
          filters={["kind", "sort"]}
          refetchInterval={5_000}
          onRow={({ roomId }) => setOpen(roomId)}
          keyOf={({ roomId }) => roomId}
          empty={<Empty title="No room is open" />}
          columns={[
            { title: "Kind", cell: ({ kind }) => words(kind) },
            { title: "Of", cell: ({ subject }) => subject },
            {
              title: "Clients",
              cell: ({ clients, maxClients }) => `${clients} of ${maxClients}`,
              isNumber: true,
            },
            { title: "Since", cell: ({ createdAt }) => <When at={createdAt} /> },
          ]}
        />
      </Section>
      <Modal opened={open !== undefined} onClose={() => setOpen(undefined)} title="Room" size="xl">
        {open && <Room roomId={open} />}
      </Modal>
    </Stack>
  );
};

const sum = (counts: Record<string, number> | null | undefined): number =>
  Object.values(counts ?? {}).reduce((total, count) => total + count, 0);

const Room = ({ roomId }: { roomId: string }) => {
  const room = useApi("getLiveRoom", { path: { roomId } });
  const end = useAct("disconnectLiveClient", { done: "Disconnected" });
  return (
    <Loaded query={room}>
      {(data) => (
        <Stack>
          <PlainTable
            name="Sessions"
            rows={data.sessions}
            keyOf={({ sessionId }) => sessionId}
            columns={[
              { title: "Player or user", cell: ({ playerId, userId }) => playerId ?? userId },
              { title: "Joined", cell: ({ joinedAt }) => <When at={joinedAt} /> },
              {
                title: "Waits to be read",
                cell: ({ bufferedBytes }) => bytes(bufferedBytes ?? 0),
                isNumber: true,
              },
            ]}
            actions={({ sessionId }) => (
              <Button
                size="compact-xs"
                variant="default"
                onClick={() => end.mutate({ path: { roomId, sessionId } })}
              >
                Disconnect
              </Button>
            )}
          />
          <Json value={data.state} />
        </Stack>
      )}
    </Loaded>
  );
};

const Addresses = () => {
  const [ip, setIp] = useState("");
  const found = useApi("getIpRateLimit", { path: { ip } }, { enabled: /^[\d.:a-f]{3,}$/i.test(ip) });
  const unblock = useAct("unblockIp", { done: "Let in again" });
  const reset = useAct("resetIpRateLimit", { done: "Counted from zero" });
  return (
    <Stack>
      <Section title="An address">
        <Group align="flex-end">
          <TextInput
            label="IP address"
            value={ip}
            onChange={(event) => setIp(event.currentTarget.value.trim())}
          />
          {found.data && (
            <>
              <FormButton
                id="blockIp"
                path={{ ip }}
                label="Block"
                size="sm"
                variant="default"
                submit="Block"
                done="Blocked"
              />
              <Button variant="default" onClick={() => reset.mutate({ path: { ip } })}>
                Count from zero
              </Button>
            </>
          )}
        </Group>
        {found.data && <Json value={found.data} />}
        {found.error && <ErrorNote error={found.error} />}
      </Section>
      <List
        id="listIpBlocks"
        name="Blocked addresses"
        filters={["source"]}
        keyOf={({ network }) => network}
        empty={<Empty title="No address is blocked" />}
        columns={[
          { title: "Address", cell: ({ network }) => network },
          { title: "Why", cell: ({ reason }) => reason },
          { title: "By", cell: ({ source }) => words(source) },
          { title: "Since", cell: ({ createdAt }) => <When at={createdAt} /> },
          { title: "Until", cell: ({ expiresAt }) => (expiresAt ? <When at={expiresAt} /> : "for ever") },
        ]}
        actions={({ network }) => (
          <Confirm
            label="Let in again"
            size="compact-xs"
            color="teal"
            title={`Let ${network} in again?`}
            onConfirm={() => unblock.mutateAsync({ path: { ip: network } })}
          />
        )}
      />
    </Stack>
  );
};

const Mails = () => {
  const resend = useAct("resendEmail", { done: "It is sent again" });
  return (
    <List
      id="listPlatformEmailLogs"
      name="Mails"
      filters={["status", "template", "email"]}
      columns={[
        { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
        { title: "To", cell: ({ to }) => to },
        { title: "Subject", cell: ({ subject }) => subject },
        { title: "Status", cell: ({ status }) => <Status value={status} /> },
      ]}
      actions={({ id, status }) =>
        status === "FAILED" && (
          <Button
            size="compact-xs"
            variant="default"
            onClick={() => resend.mutate({ path: { emailLogId: id } })}
          >
            Send again
          </Button>
        )
      }
    />
  );
};

const Tokens = () => {
  const tokens = useApi("listPlatformTokens");
  const [token, setToken] = useState<string>();
  const revoke = useAct("revokePlatformToken", { done: "Revoked" });
  return (
    <Stack>
      {token && <SecretOnce title="The token" value={token} />}
      <Group justify="flex-end">
        <FormButton
          id="createPlatformToken"
          label="New token"
          size="xs"
          initial={{ name: "", scopes: ["blog:sync"] }}
          submit="Make the token"
          done=""
          onDone={(answer) => setToken(answer.token)}
        />
      </Group>
      <Loaded query={tokens}>
        {(data) =>
          data.length === 0 ? (
            <Empty title="No tokens" />
          ) : (
            <PlainTable
              name="Tokens"
              rows={data}
              columns={[
                { title: "Name", cell: ({ name }) => name },
                { title: "Scopes", cell: ({ scopes }) => scopes.join(", ") },
                { title: "Status", cell: ({ status }) => <Status value={status} /> },
                { title: "Last used", cell: ({ lastUsedAt }) => <When at={lastUsedAt} /> },
              ]}
              actions={({ id, name, status }) =>
                status === "ACTIVE" && (
                  <Confirm
                    label="Revoke"
                    size="compact-xs"
                    title={`Revoke ${name}?`}
                    onConfirm={() => revoke.mutateAsync({ path: { tokenId: id } })}
                  />
                )
              }
            />
          )
        }
      </Loaded>
    </Stack>
  );
};

const Blog = () => (
  <Stack>
    <Group justify="flex-end">
      <FormButton
        id="syncBlogPosts"
        label="Sync posts"
        size="xs"
        initial={{ posts: [] }}
        submit="Sync"
        done="Synced"
      />
    </Group>
    <List
      id="listBlogPosts"
      name="Posts"
      keyOf={({ slug }) => slug}
      empty={<Empty title="No posts" />}
      columns={[
        { title: "Title", cell: ({ title }) => title },
        { title: "Slug", cell: ({ slug }) => slug },
        { title: "Date", cell: ({ postDate }) => String(postDate).slice(0, 10) },
        { title: "Tags", cell: ({ tags }) => tags.join(", ") },
      ]}
    />
  </Stack>
);

const Audit = () => {
  const [shown, setShown] = useState<unknown>();
  return (
    <>
      <List
        id="listPlatformAuditLog"
        name="Audit log"
        filters={["action", "actor", "tenantId", "from", "to"]}
        onRow={setShown}
        columns={[
          { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
          { title: "Who", cell: ({ actor }) => actor },
          { title: "Did", cell: ({ action }) => words(action) },
          { title: "To", cell: ({ target }) => (target ? `${words(target.type)} ${target.id}` : "–") },
          { title: "From", cell: ({ ip }) => ip },
        ]}
      />
      <Modal opened={shown !== undefined} onClose={() => setShown(undefined)} title="Entry" size="lg">
        <Json value={shown} />
      </Modal>
    </>
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
