import { Alert, Anchor, Button, Container, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { Link, useLocation, useRoute } from "wouter";
import { call, callAny } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { type Admin, signInAdmin, signOut, useSession } from "../api/session.ts";
import { number } from "../format.ts";
import { act } from "../ui/act.tsx";
import { form, OperationForm } from "../ui/form.tsx";
import { Loaded, Page } from "../ui/page.tsx";
import { Section, Status, Tile } from "../ui/small.tsx";
import { List } from "../ui/table.tsx";
import { Pages } from "../ui/tabs.tsx";
import { SignInCard, To } from "./auth.tsx";
import { FactorSetup } from "./factor.tsx";
import { AuditList, Mails } from "./logs.tsx";
import { Addresses, Blog, Rooms, Tokens } from "./platform.tsx";
import { Facts } from "../ui/cells.tsx";

/** Whoever runs the platform has an account of their own, which belongs to no tenant. */
export const SuperAdmin = () => {
  const session = useSession();
  if (session.status === "admin") return <Frame admin={session.admin} />;
  return (
    <SignInCard
      title="Platform"
      logIn={async (body) => signInAdmin(await call("superadminLogin", { body }))}
      complete={async (body) => signInAdmin(await callAny("completeSuperadminLogin", { body }))}
      above={
        <Text size="sm" c="dimmed">
          For whoever runs this server. A reload signs you out.
        </Text>
      }
      below={() => <To to="/login">To the console of your team</To>}
    />
  );
};

const AUDIT_FILTERS = ["action", "actor", "tenantId", "from", "to"];

const Frame = ({ admin }: { admin: Admin }) => {
  const [, params] = useRoute("/superadmin/:tab");
  const [, go] = useLocation();
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
        <Pages
          open={params?.tab ?? "tenants"}
          onOpen={(next) => go(`/superadmin/${next}`)}
          pages={{
            tenants: ["Tenants", () => <Tenants />],
            users: ["Users", () => <Users />],
            rooms: ["Rooms and processes", () => <Rooms />],
            addresses: ["Blocked addresses", () => <Addresses />],
            mails: ["Mails", () => <Mails id="listPlatformEmailLogs" />],
            tokens: ["Tokens", () => <Tokens />],
            blog: ["Blog", () => <Blog />],
            audit: ["Audit log", () => <AuditList id="listPlatformAuditLog" filters={AUDIT_FILTERS} />],
            account: ["Your account", () => <Account />],
          }}
        />
      </Page>
    </Container>
  );
};

const Tenants = () => {
  const stats = useApi("getPlatformStats");
  return (
    <Stack>
      <Loaded query={stats} lines={2}>
        {({ tenants, users, projects, activeKeys, mail }) => (
          <SimpleGrid cols={{ base: 2, md: 5 }}>
            <Tile
              name="Tenants"
              value={tenants.total}
              note={`${number(tenants.byApprovalStatus.PENDING)} wait for approval`}
            />
            <Tile name="Users" value={users} />
            <Tile name="Projects" value={projects} />
            <Tile name="Active keys" value={activeKeys} />
            <Tile
              name="Mails that wait"
              value={mail.queued}
              note={`${number(mail.failedLastDay)} failed in a day`}
            />
          </SimpleGrid>
        )}
      </Loaded>
      <List
        id="listPlatformTenants"
        name="Tenants"
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
};

const Approve = (path: { tenantId: string }) => act("approveTenant", "Approve", { path, isMain: true });

const Tenant = (path: { tenantId: string }) => {
  const tenant = useApi("getPlatformTenant", { path });
  return (
    <Loaded query={tenant}>
      {({ planOverrides, ...found }) => {
        const { approvalStatus, plan } = found;
        return (
          <Stack>
            <Facts
              of={found}
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
                first={["plan", "planOverrides"]}
              />
            </Section>
          </Stack>
        );
      }}
    </Loaded>
  );
};

const Users = () => (
  <List
    id="listPlatformUsers"
    name="Users"
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

const Account = () => (
  <Stack>
    <Section title="Password">
      <Group>{form("superadminChangePassword", "Change the password", { submit: "Change" })}</Group>
    </Section>
    <Section title="Second factor">
      <FactorSetup
        begin={(body) => callAny("setUpSuperadminTotp", { body })}
        enable={(code) => callAny("enableSuperadminTotp", { body: { code } })}
        onDone={async ({ login }) => login && (await signInAdmin(login))}
        hasPassword
        isEnabled={false}
        label="Use an app"
      />
    </Section>
  </Stack>
);
