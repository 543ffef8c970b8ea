import { Badge, Select } from "@mantine/core";
import { change, signOut, useAccount, tellError, useApi, useCan } from "../api/hooks.ts";
import { words } from "../format.ts";
import { act, ask, create } from "../ui/operations.tsx";
import { Named, Page } from "../ui/page.tsx";
import { List } from "../ui/table.tsx";
import { AuditList } from "./logs.tsx";
import { credentials } from "../api/client.ts";

/** What each role is for, in one line. */
const ROLES = {
  OWNER: "everything, with billing and the tenant itself",
  ADMIN: "everything but billing and the tenant itself",
  DESIGNER: "rules, economy, quests and boards",
  DEVELOPER: "keys, webhooks and events",
  VIEWER: "looks, and changes nothing",
};
type Role = keyof typeof ROLES;

export const Team = () => (
  <Page
    title="Team"
    about={Object.entries(ROLES)
      .map(([role, text]) => `${words(role)}: ${text}`)
      .join(" · ")}
    actions={[
      create("createInvitation", "Invite somebody", {
        initial: { role: "DESIGNER" },
        submit: "Invite",
        done: "The invitation is on its way",
      }),
      ask("leaveTeam", "Leave the team", {
        body: {} as never,
        title: "Leave the team?",
        onDone: () => void signOut(),
        text: "You are signed out and cannot come back without a new invitation.",
      }),
    ]}
  >
    <Members />
    <List
      section="Invitations"
      id="listInvitations"
      prefix="invitations."
      empty="Nobody is invited"
      columns={{ Email: "email", Role: "role", Status: "status", Sent: "sentAt", Expires: "expiresAt" }}
      actions={({ id, status }) =>
        status === "PENDING" && [
          act("resendInvitation", "Send again", { path: { invitationId: id }, done: "Sent again" }),
          act("revokeInvitation", "Take back", { path: { invitationId: id } }),
        ]
      }
    />
  </Page>
);

const Members = () => {
  const { user } = useAccount();
  return (
    <List
      section="Members"
      id="listMembers"
      filters={["role", "status"]}
      columns={{
        Name: ({ name, email }) => <Named name={name} more={email} />,
        Role: ({ id, role, userId }) => <RoleChoice id={id} role={role} isOwn={userId === user.id} />,
        Status: "status",
        "Second factor": "mfaEnabled",
        "Last sign-in": "lastLoginAt",
      }}
      wide={["Second factor", "Last sign-in"]}
      actions={({ id, name, userId, status, mfaEnabled }) => {
        const path = { memberId: id };
        if (userId === user.id) return null;
        return [
          status === "ACTIVE"
            ? act("updateMember", "Suspend", { path, body: { status: "SUSPENDED" } })
            : act("updateMember", status === "PENDING" ? "Accept" : "Let in again", {
                path,
                body: { status: "ACTIVE" },
                isMain: true,
              }),
          mfaEnabled &&
            ask("resetMemberMfa", "Reset second factor", {
              path,
              body: {},
              title: `Reset ${name}'s second factor?`,
              done: "The second factor is gone",
              text: "Do this when they have lost it, and you know that it is them.",
            }),
          ask("removeMember", "Remove", {
            path,
            of: name,
            name,
            done: "Removed from the team",
            text: "They are signed out at once. What they made stays.",
          }),
        ];
      }}
    />
  );
};

const RoleChoice = ({ id, role, isOwn }: { id: string; role: Role; isOwn: boolean }) => {
  const can = useCan();
  const update = (body: { role: Role }) =>
    void change("updateMember", { path: { memberId: id }, body }, "Changed").catch(tellError);
  if (isOwn || !can("updateMember")) return <Badge color="gray">{words(role)}</Badge>;
  return (
    <Select
      aria-label="Role"
      size="xs"
      w={140}
      allowDeselect={false}
      data={Object.keys(ROLES).map((one) => ({ value: one, label: words(one) }))}
      value={role}
      onChange={(next) => next && update({ role: next as Role })}
    />
  );
};

export const Audit = () => {
  const { tenant } = useAccount();
  const members = useApi("listMembers", { query: { limit: 100 } });
  const projects = useApi("listProjects", { query: { limit: 100, include: "sandboxes" } });
  const project = projects.data?.data.find(({ id }) => id === credentials.project);
  // A sandbox has the keys of its live project.
  const projectId = project?.sandboxOf ?? project?.id ?? "";
  const keys = useApi("listApiKeys", { path: { projectId } }, { enabled: projectId !== "" });
  const known = [tenant, ...(keys.data ?? []), ...(projects.data?.data ?? [])];
  const names = new Map(known.map(({ id, name }) => [id, name]));
  for (const { userId, name } of members.data?.data ?? []) names.set(userId, name);
  return (
    <Page title="Audit log" about="Who changed what, from where.">
      <AuditList id="listAuditLog" filters={["action", "actor", "from", "to"]} names={names} />
    </Page>
  );
};
