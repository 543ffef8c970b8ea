import { Alert, Anchor, Container, Group, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { Link, useRoute } from "wouter";
import { type Answer, call, callAny } from "../api/client.ts";
import { type Admin, signInAdmin, signOut, useApi, useRead, useSession } from "../api/hooks.ts";
import { bytes, number } from "../format.ts";
import { SignInCard, To } from "./auth.tsx";
import { AppSetup, RecoveryCodes } from "./factor.tsx";
import { AuditList, Mails } from "./logs.tsx";
import { Facts } from "../ui/cells.tsx";
import { act, ask, create, form, OperationForm } from "../ui/operations.tsx";
import {
  ErrorNote,
  Hint,
  Inline,
  Json,
  Page,
  press,
  Part,
  Section,
  Status,
  Tiles,
  When,
} from "../ui/page.tsx";
import { List, PlainTable, Rows } from "../ui/table.tsx";

/** Whoever runs the platform has an account of their own, which belongs to no tenant. */
export const SuperAdmin = () => {
  const session = useSession();
  if (session.status === "admin") return <Frame admin={session.admin} />;
  return (
    <SignInCard
      title="Platform"
      logIn={async (body) => signInAdmin(await call("superadminLogin", { body }))}
      complete={async (body) => signInAdmin(await callAny("completeSuperadminLogin", { body }))}
      above={<Hint>For whoever runs this server. A reload signs you out.</Hint>}
      below={() => <To to="/login">To the console of your team</To>}
    />
  );
};

const AUDIT_FILTERS = ["action", "actor", "tenantId", "from", "to"];

const Frame = ({ admin }: { admin: Admin }) => {
  const [, params] = useRoute("/superadmin/:tab");
  return (
    <Container size="xl" py="md" component="main">
      <Page
        title="Platform"
        about={admin.email}
        actions={[
          form("superadminChangePassword", "Change the password", { submit: "Change" }),
          press("Sign out", () => void signOut()),
        ]}
        at="/superadmin"
        open={params?.tab}
        pages={{
          tenants: ["Tenants", () => <Tenants />],
          users: ["Users", () => <Users />],
          rooms: ["Rooms and processes", () => <Rooms />],
          addresses: ["Blocked addresses", () => <Addresses />],
          mails: ["Mails", () => <Mails id="listPlatformEmailLogs" />],
          tokens: ["Tokens", () => <Tokens />],
          blog: ["Blog", () => <Blog />],
          audit: ["Audit log", () => <AuditList id="listPlatformAuditLog" filters={AUDIT_FILTERS} />],
          account: ["Second factor", () => <SecondFactor />],
        }}
      >
        {!admin.mfaEnabled && (
          <Alert color="yellow" title="Your account has no second factor">
            <Anchor component={Link} href="/superadmin/account" size="sm">
              Set one up
            </Anchor>
          </Alert>
        )}
      </Page>
    </Container>
  );
};

const Stats = () => {
  const { tenants, users, projects, activeKeys, mail } = useRead("getPlatformStats");
  return (
    <Tiles
      columns={5}
      of={{
        Tenants: [tenants.total, `${number(tenants.byApprovalStatus.PENDING)} wait for approval`],
        Users: users,
        Projects: projects,
        "Active keys": activeKeys,
        "Mails that wait": [mail.queued, `${number(mail.failedLastDay)} failed in a day`],
      }}
    />
  );
};

const Tenants = () => (
  <Stack>
    <Part lines={2}>
      <Stats />
    </Part>
    <List
      id="listPlatformTenants"
      filters={["search", "approvalStatus", "plan"]}
      dialog={["Tenant", ({ id }) => <Tenant tenantId={id} />]}
      columns={{
        Tenant: "name",
        Approval: "approvalStatus",
        Plan: "plan",
        Asked: "approvalRequestedAt",
        Since: "createdAt",
      }}
      wide={["Asked"]}
      actions={({ id, approvalStatus }) => approvalStatus === "PENDING" && <Approve tenantId={id} />}
    />
  </Stack>
);

const Approve = (path: { tenantId: string }) => act("approveTenant", "Approve", { path, isMain: true });

const Tenant = (path: { tenantId: string }) => {
  const tenant = useRead("getPlatformTenant", { path });
  const { approvalStatus, plan, planOverrides } = tenant;
  return (
    <Stack>
      <Facts
        of={tenant}
        show={{
          Name: "name",
          Approval: "approvalStatus",
          Reason: "approvalReason",
          Plan: "plan",
          Since: "createdAt",
          ID: ({ id }) => <span className="mono">{id}</span>,
        }}
      />
      <Group gap="xs">
        {approvalStatus !== "APPROVED" && approvalStatus !== "SUSPENDED" && <Approve {...path} />}
        {approvalStatus === "PENDING" && form("rejectTenant", "Reject", { path })}
        {approvalStatus === "SUSPENDED"
          ? act("unsuspendTenant", "Let in again", { path })
          : form("suspendTenant", "Suspend", {
              path,
              about: "Its keys and players are refused within seconds. Its owner is told the reason.",
            })}
      </Group>
      <Section title="Plan and limits">
        <OperationForm
          id="updatePlatformTenant"
          path={path}
          initial={{ plan, planOverrides: planOverrides ?? undefined }}
        />
      </Section>
    </Stack>
  );
};

const Users = () => (
  <List
    id="listPlatformUsers"
    filters={["search", "status", "disabled"]}
    columns={{
      Name: "name",
      Email: "email",
      Role: "role",
      Status: ({ status, disabledAt }) => <Status value={disabledAt ? "SUSPENDED" : status} />,
      "Second factor": "mfaEnabled",
      "Last sign-in": "lastLoginAt",
    }}
    wide={["Second factor"]}
    actions={({ id, disabledAt, mfaEnabled }) => {
      const path = { userId: id };
      return [
        disabledAt ? act("enableUser", "Let in again", { path }) : form("disableUser", "Shut out", { path }),
        mfaEnabled && form("resetUserMfa", "Reset second factor", { path, submit: "Reset" }),
      ];
    }}
  />
);

const SecondFactor = () => {
  const [codes, setCodes] = useState<string[]>();
  const enabled = ({ recoveryCodes, login }: Answer<"enableSuperadminTotp">) => {
    if (recoveryCodes) setCodes(recoveryCodes);
    if (login) void signInAdmin(login);
  };
  return (
    <Section title="An app as your second factor">
      {codes && <RecoveryCodes codes={codes} />}
      <AppSetup
        begin="setUpSuperadminTotp"
        enable="enableSuperadminTotp"
        label="Use an app"
        hidden={["passkey", "code"]}
        onDone={enabled}
      />
    </Section>
  );
};

const Rooms = () => (
  <Stack>
    <Rows
      section="Processes"
      id="listLiveProcesses"
      refetchInterval={5_000}
      columns={{
        Process: ({ host, pid, processId }) => (host ? `${host}, ${pid}` : processId),
        Does: "roles",
        Version: "version",
        Rooms: ({ rooms }) => sum(rooms),
        Clients: ({ clients }) => sum(clients),
        Memory: ({ memory }) => memory && bytes(memory.rssBytes),
        Answers: "isAnswering",
      }}
      wide={["Version"]}
      right={["Memory"]}
    />
    <List
      section="Rooms"
      id="listLiveRooms"
      filters={["kind", "sort"]}
      refetchInterval={5_000}
      dialog={["Room", ({ roomId }) => <Room roomId={roomId} />]}
      empty="No room is open"
      columns={{
        Kind: "kind",
        Of: "subject",
        Clients: ({ clients, maxClients }) => `${clients} of ${maxClients}`,
        Since: "createdAt",
      }}
      right={["Clients"]}
    />
  </Stack>
);

const sum = (counts: Record<string, number> | null | undefined): number =>
  Object.values(counts ?? {}).reduce((total, count) => total + count, 0);

const Room = ({ roomId }: { roomId: string }) => {
  const { sessions, state } = useRead("getLiveRoom", { path: { roomId } });
  return (
    <Stack>
      <PlainTable
        name="Sessions"
        rows={sessions}
        columns={{
          "Player or user": ({ playerId, userId }) => playerId ?? userId,
          Joined: "joinedAt",
          "Waits to be read": ({ bufferedBytes }) => bytes(bufferedBytes ?? 0),
        }}
        right={["Waits to be read"]}
        actions={({ sessionId }) =>
          act("disconnectLiveClient", "Disconnect", { path: { roomId, sessionId } })
        }
      />
      <Json value={state} />
    </Stack>
  );
};

const Addresses = () => {
  const [ip, setIp] = useState("");
  const found = useApi("getIpRateLimit", { path: { ip } }, { enabled: /^[\d.:a-f]{3,}$/i.test(ip) });
  return (
    <Stack>
      <Section title="An address">
        <Inline>
          <TextInput
            label="IP address"
            value={ip}
            onChange={(event) => setIp(event.currentTarget.value.trim())}
          />
          {found.data && [
            form("blockIp", "Block", { path: { ip } }),
            act("resetIpRateLimit", "Count from zero", { path: { ip }, done: "Counted from zero" }),
          ]}
        </Inline>
        {found.data && <Json value={found.data} />}
        <ErrorNote error={found.error} />
      </Section>
      <List
        id="listIpBlocks"
        filters={["source"]}
        empty="No address is blocked"
        columns={{
          Address: "network",
          Why: "reason",
          By: "source",
          Since: "createdAt",
          Until: ({ expiresAt }) => <When at={expiresAt} never="for ever" />,
        }}
        actions={({ network }) =>
          ask("unblockIp", "Let in again", {
            path: { ip: network },
            color: "teal",
            title: `Let ${network} in again?`,
          })
        }
      />
    </Stack>
  );
};

const Tokens = () => (
  <Rows
    beside={create("createPlatformToken", "New token", {
      initial: { name: "", scopes: ["blog:sync"] },
      submit: "Make the token",
      secret: ["token", "The token"],
    })}
    id="listPlatformTokens"
    empty="No tokens"
    columns={{ Name: "name", Scopes: "scopes", Status: "status", "Last used": "lastUsedAt" }}
    actions={({ id, name, status }) =>
      status === "ACTIVE" && ask("revokePlatformToken", "Revoke", { path: { tokenId: id }, of: name })
    }
  />
);

const Blog = () => (
  <List
    beside={create("syncBlogPosts", "Sync posts", { initial: { posts: [] }, submit: "Sync" })}
    id="listBlogPosts"
    empty="No posts"
    columns={{
      Title: "title",
      Slug: "slug",
      Date: ({ postDate }) => String(postDate).slice(0, 10),
      Tags: "tags",
    }}
  />
);
