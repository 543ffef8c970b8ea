import { Badge, Group, Text } from "@mantine/core";
import { useTo } from "../app/project.ts";
import { useCan } from "../api/session.ts";
import { number } from "../format.ts";
import { FormButton } from "../ui/form.tsx";
import { Empty, Page } from "../ui/page.tsx";
import { Chips, Status, When } from "../ui/small.tsx";
import { List, useOpen } from "../ui/table.tsx";

export const Players = () => {
  const to = useTo();
  const can = useCan();
  const open = useOpen<{ id: string }>(({ id }) => to(`/players/${id}`));
  return (
    <Page
      title="Players"
      actions={
        can("identifyPlayer") && (
          <FormButton
            id="identifyPlayer"
            label="Add a player"
            first={["externalUserId", "displayName"]}
            done="Added"
            onDone={open}
          />
        )
      }
    >
      <List
        id="listPlayers"
        name="Players"
        filters={["search", "status", "tag", "segment", "minLevel", "maxLevel", "sort", "order"]}
        onRow={open}
        empty={<Empty title="No players yet">They appear with their first event.</Empty>}
        columns={[
          {
            title: "Player",
            cell: ({ displayName, externalUserId }) => (
              <>
                <Text size="sm" fw={500}>
                  {displayName ?? externalUserId}
                </Text>
                {displayName && (
                  <Text size="xs" c="dimmed">
                    {externalUserId}
                  </Text>
                )}
              </>
            ),
          },
          { title: "Level", cell: ({ level }) => number(level), isNumber: true },
          { title: "XP", cell: ({ xp }) => number(xp), isNumber: true },
          {
            title: "Currencies",
            isWideOnly: true,
            cell: ({ currencies }) => (
              <Group gap={4}>
                {Object.entries(currencies as Record<string, number>)
                  .slice(0, 3)
                  .map(([key, amount]) => (
                    <Badge key={key} color="gray">{`${number(amount)} ${key}`}</Badge>
                  ))}
              </Group>
            ),
          },
          { title: "Tags", cell: ({ tags }) => <Chips of={tags.slice(0, 3)} />, isWideOnly: true },
          { title: "Status", cell: ({ status }) => <Status value={status} />, isWideOnly: true },
          { title: "Last seen", cell: ({ lastSeenAt }) => <When at={lastSeenAt} /> },
        ]}
      />
    </Page>
  );
};
