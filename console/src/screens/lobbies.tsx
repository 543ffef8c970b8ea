import { Group, Stack } from "@mantine/core";
import { useApi, useCan, useGo } from "../api/hooks.ts";
import { useMirror } from "../api/rooms.ts";
import { nameOf } from "../format.ts";
import { ask, create } from "../ui/operations.tsx";
import { Copied, Hint, Json, LinkButton, Live, Loaded, Page, Section } from "../ui/page.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { Facts } from "../ui/cells.tsx";

type Lobby = { name: string; code: string; memberCount: number; maxPlayers: number };
const titleOf = ({ name, code }: Lobby): string => `${name} (${code})`;
const membersOf = ({ memberCount, maxPlayers }: Lobby): string => `${memberCount} of ${maxPlayers}`;

export const Lobbies = () => {
  const go = useGo();
  const all = () => (
    <List
      id="listLobbies"
      filters={["status", "mode", "visibility", "hasSpace"]}
      to={({ id }) => `/lobbies/${id}`}
      empty="No lobbies yet"
      hint="Players open them through the SDK."
      columns={{ Name: titleOf, Mode: "mode", Status: "status", Players: membersOf, Made: "createdAt" }}
    />
  );
  return (
    <Page
      title="Lobbies"
      actions={create("createLobby", "New lobby", {
        first: ["name", "mode", "maxPlayers", "visibility"],
        onDone: ({ id }) => go(`/lobbies/${id}`),
      })}
      pages={{ live: ["Open now", () => <OpenLobbies />], all: ["All", all] }}
    />
  );
};

type Open = Lobby & { id: string; mode: string; hasPasscode: boolean; createdAt: string };

/** Public lobbies that may be joined, as the room of them shows it. */
const OpenLobbies = () => {
  const { shown: lobbies = [], ...watched } = useMirror("lobbies", {}, (state) =>
    [...(state.lobbies.values() as Iterable<Open>)].map((one) => ({ ...one })),
  );
  return (
    <Stack gap="xs">
      <Group>
        <Live {...watched} />
      </Group>
      <PlainTable
        name="Open lobbies"
        empty="No public lobby is open"
        rows={lobbies}
        to={({ id }) => `/lobbies/${id}`}
        columns={{
          Name: titleOf,
          Mode: "mode",
          Players: membersOf,
          Passcode: "hasPasscode",
          Made: "createdAt",
        }}
      />
    </Stack>
  );
};

export const LobbyPage = ({ id }: { id: string }) => {
  const path = { lobbyId: id };
  const lobby = useApi("getLobby", { path }, { refetchInterval: 2_000 });
  const can = useCan();
  const { data } = lobby;
  const isOpen = data !== undefined && data.status !== "CLOSED";
  return (
    <Page
      title={data?.name ?? "Lobby"}
      parent={["Lobbies", "/lobbies"]}
      actions={
        isOpen &&
        ask("closeLobby", "Close the lobby", {
          path,
          body: {},
          title: `Close ${data.name}?`,
          text: "Everybody in it is put out.",
        })
      }
    >
      <Loaded query={lobby}>
        {({ members, hostPlayerId, channelId, ...found }) => (
          <Stack>
            <Facts
              of={found}
              show={{
                Status: "status",
                Code: ({ code }) => <Copied value={code} />,
                Mode: "mode",
                Players: membersOf,
                Visibility: "visibility",
                Made: "createdAt",
              }}
            />
            <PlainTable
              section="Members"
              rows={(members ?? []) as any[]}
              empty="Nobody is in it"
              to={({ playerId }) => `/players/${playerId}`}
              columns={{
                Player: (member) => `${nameOf(member)}${member.playerId === hostPlayerId ? " (host)" : ""}`,
                Status: "status",
                Team: "team",
                Joined: "joinedAt",
              }}
              actions={(member) =>
                isOpen &&
                ask("kickFromLobby", "Put out", {
                  path,
                  body: { playerId: member.playerId },
                  title: `Put ${nameOf(member)} out?`,
                })
              }
            />
            <Section title="Settings">
              <Json value={found.settings} />
            </Section>
            {can("listChatChannels") && channelId && (
              <LinkButton to={`/chat/channels?open=${channelId}`}>Its chat</LinkButton>
            )}
            <Hint size="xs">This page looks again every two seconds.</Hint>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
};
