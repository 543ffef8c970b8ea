import { Act } from "../ui/act.tsx";
import { Group, Modal, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { useAct, useApi } from "../api/hooks.ts";
import { bytes, number, words } from "../format.ts";
import { FormButton } from "../ui/form.tsx";
import { Empty, ErrorNote, Loaded } from "../ui/page.tsx";
import { Confirm, Json, SecretOnce, Section, Status, When } from "../ui/small.tsx";
import { List, PlainTable } from "../ui/table.tsx";

export const Rooms = () => {
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
              <Act id="disconnectLiveClient" path={{ roomId, sessionId }} done="Disconnected">
                Disconnect
              </Act>
            )}
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
  const unblock = useAct("unblockIp", { done: "Let in again" });
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
              <Act id="resetIpRateLimit" path={{ ip }} done="Counted from zero" size="sm">
                Count from zero
              </Act>
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

export const Mails = () => {
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
          <Act id="resendEmail" path={{ emailLogId: id }} done="It is sent again">
            Send again
          </Act>
        )
      }
    />
  );
};

export const Tokens = () => {
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

export const Blog = () => (
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

export const Audit = () => {
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
