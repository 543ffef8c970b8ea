import { Group, Stack } from "@mantine/core";
import { useCan, useGo, useRead } from "../api/hooks.ts";
import type { Row } from "../api/client.ts";
import { useMirror } from "../api/rooms.ts";
import { nameOf } from "../format.ts";
import { ask, create } from "../ui/operations.tsx";
import { Copied, Hint, Json, LinkButton, Live, Page, Section } from "../ui/page.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { type Columns, Facts } from "../ui/cells.tsx";

type Lobby = Row<"listLobbies">;
const membersOf = ({ memberCount, maxPlayers }: Pick<Lobby, "memberCount" | "maxPlayers">): string =>
  `${memberCount} of ${maxPlayers}`;

const COLUMNS: Columns<Lobby> = {
  Name: ({ name, code }) => `${name} (${code})`,
  Mode: "mode",
  Players: membersOf,
  Passcode: "hasPasscode",
  Made: "createdAt",
};

export const Lobbies = () => {
  const go = useGo();
  const all = () => (
    <List
      id="listLobbies"
      filters={["status", "mode", "visibility", "hasSpace"]}
      to={({ id }) => `/lobbies/${id}`}
      empty="No lobbies yet"
      hint="Players open them through the SDK."
      columns={{ ...COLUMNS, Status: "status" }}
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

/** Public lobbies that may be joined, as the room of them shows it. */
const OpenLobbies = () => {
  const { shown: lobbies = [], ...watched } = useMirror("lobbies", {}, (state) =>
    [...(state.lobbies.values() as Iterable<Lobby>)].map((one) => ({ ...one })),
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
        columns={COLUMNS}
      />
    </Stack>
  );
};

export const LobbyPage = ({ id }: { id: string }) => {
  const path = { lobbyId: id };
  const lobby = useRead("getLobby", { path }, 2_000);
  const can = useCan();
  const { name, hostPlayerId, channelId, members, settings, status } = lobby;
  const isOpen = status !== "CLOSED";
  return (
    <Page
      title={name}
      parent={["Lobbies", "/lobbies"]}
      actions={
        isOpen &&
        ask("closeLobby", "Close the lobby", {
          path,
          body: {},
          title: `Close ${name}?`,
          text: "Everybody in it is put out.",
        })
      }
    >
      <Facts
        of={lobby}
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
        rows={members ?? []}
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
        <Json value={settings} />
      </Section>
      {can("listChatChannels") && channelId && (
        <LinkButton to={`/chat/channels?open=${channelId}`}>Its chat</LinkButton>
      )}
      <Hint size="xs">This page looks again every two seconds.</Hint>
    </Page>
  );
};
