import { Button, Group, Stack, Text } from "@mantine/core";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import { useAct, useApi } from "../api/hooks.ts";
import { useMirror } from "../api/rooms.ts";
import { useCan } from "../api/session.ts";
import { FormButton } from "../ui/form.tsx";
import { Empty, Loaded, Page } from "../ui/page.tsx";
import { Confirm, CopyIcon, Facts, Json, Section, Status, When, Live } from "../ui/small.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { Pages } from "../ui/tabs.tsx";

export const Lobbies = () => {
  const to = useTo();
  const can = useCan();
  const [, go] = useLocation();
  return (
    <Page
      title="Lobbies"
      actions={
        can("createLobby") && (
          <FormButton
            id="createLobby"
            label="New lobby"
            first={["name", "mode", "maxPlayers", "visibility"]}
            done="Created"
            onDone={({ id }) => go(to(`/lobbies/${id}`))}
          />
        )
      }
    >
      <Pages
        pages={{
          live: ["Open now", () => <OpenLobbies />],
          all: [
            "All",
            () => (
              <List
                id="listLobbies"
                name="Lobbies"
                filters={["status", "mode", "visibility", "hasSpace"]}
                onRow={({ id }) => go(to(`/lobbies/${id}`))}
                empty={<Empty title="No lobbies yet">Players open them through the SDK.</Empty>}
                columns={[
                  { title: "Name", cell: ({ name, code }) => `${name} (${code})` },
                  { title: "Mode", cell: ({ mode }) => mode },
                  { title: "Status", cell: ({ status }) => <Status value={status} /> },
                  {
                    title: "Players",
                    cell: ({ memberCount, maxPlayers }) => `${memberCount} of ${maxPlayers}`,
                  },
                  { title: "Made", cell: ({ createdAt }) => <When at={createdAt} /> },
                ]}
              />
            ),
          ],
        }}
      />
    </Page>
  );
};

type Open = {
  id: string;
  code: string;
  name: string;
  mode: string;
  memberCount: number;
  maxPlayers: number;
  hasPasscode: boolean;
  createdAt: string;
};

/** Public lobbies that may be joined, as the room of them shows it. */
const OpenLobbies = () => {
  const to = useTo();
  const [, go] = useLocation();
  const { shown: lobbies = [], ...watched } = useMirror("lobbies", {}, (state) =>
    [...(state.lobbies.values() as Iterable<Open>)].map((one) => ({ ...one })),
  );
  return (
    <Stack gap="xs">
      <Group>
        <Live {...watched} />
      </Group>
      {lobbies.length === 0 ? (
        <Empty title="No public lobby is open" />
      ) : (
        <PlainTable
          name="Open lobbies"
          rows={lobbies}
          onRow={({ id }) => go(to(`/lobbies/${id}`))}
          columns={[
            { title: "Name", cell: ({ name, code }) => `${name} (${code})` },
            { title: "Mode", cell: ({ mode }) => mode },
            { title: "Players", cell: ({ memberCount, maxPlayers }) => `${memberCount} of ${maxPlayers}` },
            { title: "Passcode", cell: ({ hasPasscode }) => (hasPasscode ? "yes" : "no") },
            { title: "Made", cell: ({ createdAt }) => <When at={createdAt} /> },
          ]}
        />
      )}
    </Stack>
  );
};

export const LobbyPage = ({ id }: { id: string }) => {
  const path = { lobbyId: id };
  const lobby = useApi("getLobby", { path }, { refetchInterval: 2_000 });
  const to = useTo();
  const can = useCan();
  const [, go] = useLocation();
  const close = useAct("closeLobby", { done: "Closed" });
  const kick = useAct("kickFromLobby", { done: "Put out" });
  const data = lobby.data;
  return (
    <Page
      title={data?.name ?? "Lobby"}
      parent={{ title: "Lobbies", to: to("/lobbies") }}
      actions={
        data &&
        can("closeLobby") &&
        data.status !== "CLOSED" && (
          <Confirm
            label="Close the lobby"
            size="sm"
            title={`Close ${data.name}?`}
            onConfirm={() => close.mutateAsync({ path, body: {} })}
          >
            Everybody in it is put out.
          </Confirm>
        )
      }
    >
      <Loaded query={lobby}>
        {(found) => (
          <Stack>
            <Facts
              of={{
                Status: <Status value={found.status} />,
                Code: (
                  <>
                    {found.code} <CopyIcon value={found.code} />
                  </>
                ),
                Mode: found.mode,
                Players: `${found.memberCount} of ${found.maxPlayers}`,
                Visibility: found.visibility.toLowerCase(),
                Made: <When at={found.createdAt} />,
              }}
            />
            <Section title="Members">
              {(found.members ?? []).length === 0 ? (
                <Empty title="Nobody is in it" />
              ) : (
                <PlainTable
                  name="Members"
                  rows={found.members as any[]}
                  keyOf={({ playerId }) => playerId}
                  onRow={({ playerId }) => go(to(`/players/${playerId}`))}
                  columns={[
                    {
                      title: "Player",
                      cell: ({ displayName, externalUserId, playerId }) =>
                        `${displayName ?? externalUserId}${playerId === found.hostPlayerId ? " (host)" : ""}`,
                    },
                    { title: "Status", cell: ({ status }) => <Status value={status} /> },
                    { title: "Team", cell: ({ team }) => team },
                    { title: "Joined", cell: ({ joinedAt }) => <When at={joinedAt} /> },
                  ]}
                  actions={
                    can("kickFromLobby") && found.status !== "CLOSED"
                      ? ({ playerId, displayName, externalUserId }) => (
                          <Confirm
                            label="Put out"
                            size="compact-xs"
                            title={`Put ${displayName ?? externalUserId} out?`}
                            onConfirm={() => kick.mutateAsync({ path, body: { playerId } })}
                          />
                        )
                      : undefined
                  }
                />
              )}
            </Section>
            <Section title="Settings">
              <Json value={found.settings} />
            </Section>
            {can("listChatChannels") && found.channelId && (
              <Group>
                <Button
                  variant="default"
                  size="xs"
                  onClick={() => go(to(`/chat/channels?open=${found.channelId}`))}
                >
                  Its chat
                </Button>
              </Group>
            )}
            <Text size="xs" c="dimmed">
              This page looks again every two seconds.
            </Text>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
};
