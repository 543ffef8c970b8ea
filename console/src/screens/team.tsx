import { Act } from "../ui/act.tsx";
import { Badge, Button, Group, Modal, Select } from "@mantine/core";
import { useState } from "react";
import { useAct } from "../api/hooks.ts";
import { signOut, useAccount, useCan } from "../api/session.ts";
import { words } from "../format.ts";
import { FormButton } from "../ui/form.tsx";
import { Empty, Page } from "../ui/page.tsx";
import { Confirm, Json, Section, Status, When, Named } from "../ui/small.tsx";
import { List } from "../ui/table.tsx";

const ROLES = ["OWNER", "ADMIN", "DESIGNER", "DEVELOPER", "VIEWER"] as const;

/** What each role is for, in one line. */
const ROLE_TEXT: Record<(typeof ROLES)[number], string> = {
  OWNER: "everything, with billing and the tenant itself",
  ADMIN: "everything but billing and the tenant itself",
  DESIGNER: "rules, economy, quests and boards",
  DEVELOPER: "keys, webhooks and events",
  VIEWER: "looks, and changes nothing",
};

export const Team = () => {
  const can = useCan();
  const leave = useAct("leaveTeam", { onDone: () => void signOut() });
  return (
    <Page
      title="Team"
      about={ROLES.map((role) => `${words(role)}: ${ROLE_TEXT[role]}`).join(" · ")}
      actions={
        can("createInvitation") && (
          <FormButton
            id="createInvitation"
            label="Invite somebody"
            first={["email", "role"]}
            initial={{ role: "DESIGNER" }}
            submit="Invite"
            done="The invitation is on its way"
          />
        )
      }
    >
      <Members />
      <Invitations />
      <Group>
        {" "}
        <Confirm
          label="Leave the team"
          title="Leave the team?"
          onConfirm={() => leave.mutateAsync({ body: {} as never })}
        >
          You are signed out and cannot come back without a new invitation.
        </Confirm>
      </Group>
    </Page>
  );
};

const Members = () => {
  const { user } = useAccount();
  const can = useCan();
  const update = useAct("updateMember", { done: "Changed" });
  const remove = useAct("removeMember", { done: "Removed from the team" });
  const reset = useAct("resetMemberMfa", { done: "The second factor is gone" });
  return (
    <Section title="Members">
      <List
        id="listMembers"
        name="Members"
        filters={["role", "status"]}
        columns={[
          {
            title: "Name",
            cell: ({ name, email }) => <Named name={name} more={email} />,
          },
          {
            title: "Role",
            cell: ({ id, role, userId }) =>
              can("updateMember") && userId !== user.id ? (
                <Select
                  aria-label="Role"
                  size="xs"
                  w={140}
                  allowDeselect={false}
                  data={ROLES.map((one) => ({ value: one, label: words(one) }))}
                  value={role}
                  onChange={(next) =>
                    next && update.mutate({ path: { memberId: id }, body: { role: next as typeof role } })
                  }
                />
              ) : (
                <Badge color="gray">{words(role)}</Badge>
              ),
          },
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
          {
            title: "Second factor",
            cell: ({ mfaEnabled }) => (mfaEnabled === undefined ? "–" : mfaEnabled ? "yes" : "no"),
            isWideOnly: true,
          },
          { title: "Last sign-in", cell: ({ lastLoginAt }) => <When at={lastLoginAt} />, isWideOnly: true },
        ]}
        actions={
          can("removeMember")
            ? ({ id, name, userId, status, mfaEnabled }) =>
                userId !== user.id && (
                  <>
                    {status !== "ACTIVE" ? (
                      <Button
                        size="compact-xs"
                        onClick={() => update.mutate({ path: { memberId: id }, body: { status: "ACTIVE" } })}
                      >
                        {status === "PENDING" ? "Accept" : "Let in again"}
                      </Button>
                    ) : (
                      <Button
                        size="compact-xs"
                        variant="default"
                        onClick={() =>
                          update.mutate({ path: { memberId: id }, body: { status: "SUSPENDED" } })
                        }
                      >
                        Suspend
                      </Button>
                    )}
                    {mfaEnabled && can("resetMemberMfa") && (
                      <Confirm
                        label="Reset second factor"
                        size="compact-xs"
                        title={`Reset ${name}'s second factor?`}
                        onConfirm={() => reset.mutateAsync({ path: { memberId: id }, body: {} })}
                      >
                        Do this when they have lost it, and you know that it is them.
                      </Confirm>
                    )}
                    <Confirm
                      label="Remove"
                      size="compact-xs"
                      title={`Remove ${name}?`}
                      name={name}
                      onConfirm={() => remove.mutateAsync({ path: { memberId: id } })}
                    >
                      They are signed out at once. What they made stays.
                    </Confirm>
                  </>
                )
            : undefined
        }
      />
    </Section>
  );
};

const Invitations = () => {
  const can = useCan();
  return (
    <Section title="Invitations">
      <List
        id="listInvitations"
        name="Invitations"
        empty={<Empty title="Nobody is invited" />}
        columns={[
          { title: "Email", cell: ({ email }) => email },
          { title: "Role", cell: ({ role }) => words(role) },
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
          { title: "Sent", cell: ({ sentAt }) => <When at={sentAt} /> },
          { title: "Expires", cell: ({ expiresAt }) => <When at={expiresAt} /> },
        ]}
        actions={
          can("revokeInvitation")
            ? ({ id, status }) =>
                status === "PENDING" && (
                  <>
                    <Act id="resendInvitation" path={{ invitationId: id }} done="Sent again">
                      Send again
                    </Act>
                    <Act id="revokeInvitation" path={{ invitationId: id }} done="Taken back">
                      Take back
                    </Act>
                  </>
                )
            : undefined
        }
      />
    </Section>
  );
};

export const Audit = () => {
  const [shown, setShown] = useState<unknown>();
  return (
    <Page title="Audit log" about="Who changed what, from where.">
      <List
        id="listAuditLog"
        name="Audit log"
        filters={["action", "actor", "from", "to"]}
        onRow={setShown}
        columns={[
          { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
          { title: "Who", cell: ({ actor }) => actor },
          { title: "Did", cell: ({ action }) => words(action) },
          {
            title: "To",
            cell: ({ target }) => (target ? `${words(target.type)} ${target.id}` : "–"),
            isWideOnly: true,
          },
          { title: "From", cell: ({ ip }) => ip, isWideOnly: true },
        ]}
      />
      <Modal opened={shown !== undefined} onClose={() => setShown(undefined)} title="Entry" size="lg">
        <Json value={shown} />
      </Modal>
    </Page>
  );
};
