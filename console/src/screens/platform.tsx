import { Group, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { useApi } from "../api/hooks.ts";
import { bytes } from "../format.ts";
import { act, ask } from "../ui/act.tsx";
import { create, form } from "../ui/form.tsx";
import { ErrorNote, Loaded } from "../ui/page.tsx";
import { Json, SecretOnce, Section, When } from "../ui/small.tsx";
import { List, PlainTable, Rows } from "../ui/table.tsx";

export const Rooms = () => {
  return (
    <Stack>
      <Rows
        section="Processes"
        id="listLiveProcesses"
        refetchInterval={5_000}
        name="Processes"
        keyOf={({ processId }) => processId}
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
        name="Rooms"
        filters={["kind", "sort"]}
        refetchInterval={5_000}
        dialog={["Room", ({ roomId }) => <Room roomId={roomId} />]}
        keyOf={({ roomId }) => roomId}
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
};

const sum = (counts: Record<string, number> | null | undefined): number =>
  Object.values(counts ?? {}).reduce((total, count) => total + count, 0);

const Room = ({ roomId }: { roomId: string }) => {
  const room = useApi("getLiveRoom", { path: { roomId } });
  return (
    <Loaded query={room}>
      {(data) => (
        <Stack>
          <PlainTable
            name="Sessions"
            rows={data.sessions}
            keyOf={({ sessionId }) => sessionId}
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
          <Json value={data.state} />
        </Stack>
      )}
    </Loaded>
  );
};

export const Addresses = () => {
  const [ip, setIp] = useState("");
  const found = useApi("getIpRateLimit", { path: { ip } }, { enabled: /^[\d.:a-f]{3,}$/i.test(ip) });
  return (
    <Stack>
      <Section title="An address">
        <Group align="flex-end">
          <TextInput
            label="IP address"
            size="xs"
            value={ip}
            onChange={(event) => setIp(event.currentTarget.value.trim())}
          />
          {found.data && [
            form("blockIp", "Block", { path: { ip } }),
            act("resetIpRateLimit", "Count from zero", { path: { ip }, done: "Counted from zero" }),
          ]}
        </Group>
        {found.data && <Json value={found.data} />}
        <ErrorNote error={found.error} />
      </Section>
      <List
        id="listIpBlocks"
        name="Blocked addresses"
        filters={["source"]}
        keyOf={({ network }) => network}
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

export const Tokens = () => {
  const [token, setToken] = useState<string>();
  return (
    <Stack>
      {token && <SecretOnce title="The token" value={token} />}
      <Group justify="flex-end">
        {create("createPlatformToken", "New token", {
          initial: { name: "", scopes: ["blog:sync"] },
          submit: "Make the token",
          done: "",
          onDone: (answer) => setToken(answer.token),
        })}
      </Group>
      <Rows
        id="listPlatformTokens"
        name="Tokens"
        empty="No tokens"
        columns={{ Name: "name", Scopes: "scopes", Status: "status", "Last used": "lastUsedAt" }}
        actions={({ id, name, status }) =>
          status === "ACTIVE" && ask("revokePlatformToken", "Revoke", { path: { tokenId: id }, of: name })
        }
      />
    </Stack>
  );
};

export const Blog = () => (
  <List
    beside={create("syncBlogPosts", "Sync posts", { initial: { posts: [] }, submit: "Sync" })}
    id="listBlogPosts"
    name="Posts"
    keyOf={({ slug }) => slug}
    empty="No posts"
    columns={{
      Title: "title",
      Slug: "slug",
      Date: ({ postDate }) => String(postDate).slice(0, 10),
      Tags: "tags",
    }}
  />
);
