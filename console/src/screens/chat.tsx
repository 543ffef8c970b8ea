import { Act } from "../ui/act.tsx";
import { Badge, Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import { type Answer, type Body, call } from "../api/client.ts";
import { useAct, useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { moment, words } from "../format.ts";
import { useFilters } from "../ui/filters.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { Empty, ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Section, Status, When } from "../ui/small.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { Pages } from "../ui/tabs.tsx";
import { useSending } from "../ui/sending.ts";

export const Chat = ({ tab = "reports" }: { tab?: string }) => {
  const to = useTo();
  const [, go] = useLocation();
  return (
    <Page title="Chat moderation">
      <Pages
        open={tab}
        onOpen={(next) => go(to(next === "reports" ? "/chat" : `/chat/${next}`))}
        pages={{
          reports: ["Reports", () => <Reports />],
          sanctions: ["Mutes and bans", () => <Sanctions />],
          words: ["Word lists", () => <Words />],
          channels: ["Channels", () => <Channels />],
        }}
      />
    </Page>
  );
};

type Person = { playerId: string; externalUserId: string; displayName: string | null };
const nameOf = (person: Person | null | undefined): string =>
  person?.displayName ?? person?.externalUserId ?? "–";

const Reports = () => {
  const [open, setOpen] = useState<string>();
  return (
    <>
      <List
        id="listChatReports"
        name="Reports"
        filters={["status"]}
        defaults={{ status: "OPEN" }}
        refetchInterval={5_000}
        onRow={({ id }) => setOpen(id)}
        empty={<Empty title="Nothing is reported">Players report a message, and it waits here.</Empty>}
        columns={[
          { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
          { title: "About", cell: ({ sender }) => nameOf(sender) },
          { title: "Reason", cell: ({ reason }) => words(reason) },
          { title: "By", cell: ({ reporter }) => nameOf(reporter), isWideOnly: true },
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
        ]}
      />
      <Modal opened={open !== undefined} onClose={() => setOpen(undefined)} title="Report" size="xl">
        {open && <Report id={open} onDone={() => setOpen(undefined)} />}
      </Modal>
    </>
  );
};

/** A message as moderators see it: whose it is, what was said, what became of it. */
const Message = ({ message, isMarked = false }: { message: any; isMarked?: boolean }) => (
  <div
    style={
      isMarked ? { borderLeft: "3px solid var(--mantine-color-red-6)", paddingLeft: 8 } : { paddingLeft: 11 }
    }
  >
    <Group gap="xs">
      <Text size="sm" fw={600}>
        {nameOf(message.sender)}
      </Text>
      <Text size="xs" c="dimmed">
        {moment(message.createdAt)}
      </Text>
      {message.moderation !== "VISIBLE" && <Badge color="orange">{words(message.moderation)}</Badge>}
      {message.deletedAt && <Badge color="red">Deleted</Badge>}
    </Group>
    <Text size="sm" style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
      {message.original ?? message.content}
    </Text>
  </div>
);

const ACTIONS = {
  REMOVE: "Remove the message",
  WARN: "Warn",
  MUTE: "Mute for a day",
  BAN: "Ban",
  NONE: "Close without anything",
} as const;

const Report = ({ id, onDone }: { id: string; onDone: () => void }) => {
  const path = { reportId: id };
  const report = useApi("getChatReport", { path });
  const can = useCan();
  const decide = useAct("updateChatReport", { done: "Decided", onDone });
  const { isBusy, error, send } = useSending();
  /** A report is decided by whoever has taken it: one moderator at a time. */
  const settle = (body: Body<"updateChatReport">) =>
    send(async () => {
      if (report.data!.report.status === "OPEN")
        await call("updateChatReport", { path, body: { status: "IN_REVIEW" } });
      decide.mutate({ path, body });
    })();
  const act = (action: keyof typeof ACTIONS) =>
    settle({
      status: "RESOLVED",
      action,
      ...(action === "MUTE" ? { durationSeconds: 86_400 } : {}),
      ...(action === "MUTE" || action === "BAN" || action === "WARN"
        ? { reason: words(report.data!.report.reason) }
        : {}),
    });
  return (
    <Loaded query={report}>
      {(data) => {
        const { context = [], message } = data as any;
        const around = [...context].toSorted((a: any, b: any) => a.seq - b.seq);
        return (
          <Stack>
            <Text size="sm">
              {`${nameOf(data.report.reporter)} reports ${nameOf(data.report.sender)}: ${words(data.report.reason).toLowerCase()}.`}
              {data.report.note ? ` “${data.report.note}”` : ""}
            </Text>
            <Section title="What was said">
              {around.length === 0 && message && <Message message={message} isMarked />}
              {around.map((one: any) => (
                <Message key={one.seq} message={one} isMarked={one.seq === data.report.seq} />
              ))}
            </Section>
            {can("updateChatReport") &&
              (data.report.status === "OPEN" || data.report.status === "IN_REVIEW") && (
                <Group>
                  {(Object.keys(ACTIONS) as (keyof typeof ACTIONS)[]).map((action) => (
                    <Button
                      key={action}
                      size="xs"
                      variant={action === "REMOVE" ? "filled" : "default"}
                      loading={isBusy || decide.isPending}
                      onClick={() => act(action)}
                    >
                      {ACTIONS[action]}
                    </Button>
                  ))}
                  <Button size="xs" variant="default" onClick={() => settle({ status: "DISMISSED" })}>
                    Dismiss the report
                  </Button>
                </Group>
              )}
            {error !== undefined && <ErrorNote error={error} />}
          </Stack>
        );
      }}
    </Loaded>
  );
};

const Sanctions = () => {
  const can = useCan();
  const revoke = useAct("revokeChatSanction", { done: "It has ended" });
  return (
    <Stack gap="xs">
      {can("createChatSanction") && (
        <Group justify="flex-end">
          <FormButton
            id="createChatSanction"
            label="Mute or ban somebody"
            size="xs"
            first={["playerId", "kind", "durationSeconds", "reason"]}
            initial={{ kind: "MUTE", durationSeconds: 3600 }}
            submit="Do it"
            done="Done"
          />
        </Group>
      )}
      <List
        id="listChatSanctions"
        name="Mutes and bans"
        filters={["kind", "active", "appealStatus"]}
        defaults={{ active: "true" }}
        empty={<Empty title="Nobody is muted or banned" />}
        columns={[
          { title: "Player", cell: ({ player }) => nameOf(player) },
          {
            title: "What",
            cell: ({ kind, isAutomatic }) => `${words(kind)}${isAutomatic ? " (automatic)" : ""}`,
          },
          { title: "Why", cell: ({ reason }) => reason },
          { title: "Since", cell: ({ createdAt }) => <When at={createdAt} />, isWideOnly: true },
          { title: "Until", cell: ({ expiresAt }) => (expiresAt ? <When at={expiresAt} /> : "for ever") },
          {
            title: "Appeal",
            cell: ({ appeal }) => (appeal ? `${words(appeal.status)}: ${appeal.text}` : "–"),
          },
        ]}
        actions={({ id, isActive, player, appeal }) => (
          <>
            {appeal?.status === "OPEN" && can("answerChatAppeal") && (
              <>
                <Act
                  id="answerChatAppeal"
                  path={{ sanctionId: id }}
                  body={{ status: "ACCEPTED" }}
                  done="Answered"
                  isMain
                >
                  Accept
                </Act>
                <Act
                  id="answerChatAppeal"
                  path={{ sanctionId: id }}
                  body={{ status: "REJECTED" }}
                  done="Answered"
                >
                  Reject
                </Act>
              </>
            )}
            {isActive && can("revokeChatSanction") && (
              <Confirm
                label="End"
                size="compact-xs"
                color="teal"
                title={`Let ${nameOf(player)} speak again?`}
                onConfirm={() => revoke.mutateAsync({ path: { sanctionId: id } })}
              />
            )}
          </>
        )}
      />
    </Stack>
  );
};

const Words = () => {
  const lists = useApi("listChatWordLists");
  const can = useCan();
  const [open, setOpen] = useState<string>();
  const remove = useAct("deleteChatWordList", { done: "Removed" });
  const [text, setText] = useState("");
  const [tested, setTested] = useState<Answer<"testChatFilter">>();
  const { error, isBusy, send } = useSending();
  return (
    <Stack>
      <Section
        title="Word lists"
        actions={
          can("putChatWordList") && (
            <Button size="xs" onClick={() => setOpen("")}>
              New list
            </Button>
          )
        }
      >
        <Loaded query={lists}>
          {({ data }) =>
            data.length === 0 ? (
              <Empty title="No lists yet">
                The built-in filter knows common words already. Lists add those of your game.
              </Empty>
            ) : (
              <PlainTable
                name="Word lists"
                rows={data}
                keyOf={({ key }) => key}
                onRow={({ key }) => setOpen(key)}
                columns={[
                  { title: "List", cell: ({ key }) => key },
                  { title: "Action", cell: ({ action }) => words(action) },
                  { title: "Words", cell: ({ wordCount }) => wordCount, isNumber: true },
                  { title: "Changed", cell: ({ updatedAt }) => <When at={updatedAt} /> },
                ]}
                actions={({ key }) =>
                  can("deleteChatWordList") && (
                    <Confirm
                      label="Remove"
                      size="compact-xs"
                      title={`Remove ${key}?`}
                      onConfirm={() => remove.mutateAsync({ path: { key } })}
                    />
                  )
                }
              />
            )
          }
        </Loaded>
      </Section>
      {can("testChatFilter") && (
        <Section title="Try a text">
          <form onSubmit={send(async () => setTested(await call("testChatFilter", { body: { text } })))}>
            <Stack gap="xs" align="flex-start">
              <Textarea
                label="Text"
                value={text}
                onChange={(event) => setText(event.currentTarget.value)}
                w="100%"
                required
              />
              <Button type="submit" size="xs" loading={isBusy}>
                What would happen?
              </Button>
            </Stack>
          </form>
          {error !== undefined && <ErrorNote error={error} />}
          {tested && (
            <Text size="sm">
              <b>{words(tested.outcome)}</b>
              {tested.content ? `: ${tested.content}` : ""}{" "}
              {tested.words.map(({ word, list }) => `${word} (${list})`).join(", ")}
            </Text>
          )}
        </Section>
      )}
      <Modal
        opened={open !== undefined}
        onClose={() => setOpen(undefined)}
        title={open === "" ? "New list" : open}
        size="lg"
      >
        {open !== undefined && <WordList listKey={open} onDone={() => setOpen(undefined)} />}
      </Modal>
    </Stack>
  );
};

const WordList = ({ listKey, onDone }: { listKey: string; onDone: () => void }) => {
  const [key, setKey] = useState(listKey);
  const list = useApi("getChatWordList", { path: { key: listKey } }, { enabled: listKey !== "" });
  const form = (initial: object) => (
    <OperationForm
      id="putChatWordList"
      path={{ key }}
      initial={initial}
      first={["action", "match", "words"]}
      onDone={onDone}
    />
  );
  if (listKey !== "") return <Loaded query={list}>{(data) => form(data)}</Loaded>;
  return (
    <Stack>
      <Textarea
        label="Key"
        value={key}
        onChange={(event) => setKey(event.currentTarget.value.trim())}
        autosize
        required
      />
      {key !== "" && form({ action: "MASK", words: [] })}
    </Stack>
  );
};

const Channels = () => {
  const [{ open }, choose] = useFilters();
  const can = useCan();
  return (
    <Stack gap="xs">
      {can("createChatChannel") && (
        <Group justify="flex-end">
          <FormButton
            id="createChatChannel"
            label="New channel"
            size="xs"
            first={["key", "name", "settings"]}
            done="Created"
          />
        </Group>
      )}
      <List
        id="listChatChannels"
        name="Channels"
        filters={["kind", "status"]}
        onRow={({ id }) => choose({ open: id })}
        empty={<Empty title="No channels yet" />}
        columns={[
          { title: "Channel", cell: ({ name, key, id }) => name ?? key ?? id },
          { title: "Kind", cell: ({ kind }) => words(kind) },
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
          { title: "Messages", cell: ({ lastSeq }) => lastSeq, isNumber: true },
        ]}
      />
      <Modal
        opened={open !== undefined && open !== ""}
        onClose={() => choose({ open: "" })}
        title="Channel"
        size="xl"
      >
        {open && <Channel id={open} />}
      </Modal>
    </Stack>
  );
};

const Channel = ({ id }: { id: string }) => {
  const path = { channelId: id };
  const channel = useApi("getChatChannel", { path });
  const messages = useApi(
    "listChatMessages",
    { path, query: { limit: 50 } as never },
    { refetchInterval: 3_000 },
  );
  const can = useCan();
  const lock = useAct("lockChatChannel", { done: "Only moderators may speak" });
  const unlock = useAct("unlockChatChannel", { done: "Everybody may speak again" });
  return (
    <Stack>
      <Loaded query={channel} lines={1}>
        {(data) => (
          <Group>
            <Status value={data.status} />
            {can("lockChatChannel") && (
              <Button
                size="xs"
                variant="default"
                onClick={() => (data.status === "LOCKED" ? unlock : lock).mutate({ path })}
              >
                {data.status === "LOCKED" ? "Unlock" : "Lock"}
              </Button>
            )}
            {can("updateChatChannel") && (
              <FormButton
                id="updateChatChannel"
                path={path}
                label="Settings"
                size="xs"
                variant="default"
                initial={{ name: data.name ?? undefined, settings: data.settings }}
                done="Changed"
              />
            )}
          </Group>
        )}
      </Loaded>
      <Loaded query={messages}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="Nobody has said anything" />
          ) : (
            <Stack gap="xs">
              {data.map((message) => (
                <Group key={message.seq} justify="space-between" wrap="nowrap" align="flex-start">
                  <Message message={message} />
                  {can("deleteChatMessage") && (
                    <Group gap={4} wrap="nowrap">
                      {(message.moderation === "HELD" || message.moderation === "MASKED") && (
                        <Act
                          id="restoreChatMessage"
                          path={{ ...path, seq: message.seq }}
                          done="Shown again"
                          isMain
                        >
                          Show it
                        </Act>
                      )}
                      {!message.deletedAt && (
                        <Act id="deleteChatMessage" path={{ ...path, seq: message.seq }} done="Deleted">
                          Delete
                        </Act>
                      )}
                    </Group>
                  )}
                </Group>
              ))}
            </Stack>
          )
        }
      </Loaded>
    </Stack>
  );
};
