import { Badge, Group, Modal, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { useAct, useApi, useCan } from "../api/hooks.ts";
import { type Answer, type Body, call, type Row } from "../api/client.ts";
import { moment, nameOf, words } from "../format.ts";
import { act, ask, create, form, OperationForm } from "../ui/operations.tsx";
import { useFilters } from "../ui/filters.tsx";
import {
  ButtonSize,
  Empty,
  ErrorNote,
  Hint,
  Loaded,
  Page,
  press,
  Read,
  Section,
  Status,
  When,
} from "../ui/page.tsx";
import { List, Rows } from "../ui/table.tsx";
import { SmallForm, useSending } from "../ui/sending.tsx";

export const Chat = ({ tab = "reports" }: { tab?: string }) => (
  <Page
    title="Chat moderation"
    at="/chat"
    open={tab}
    pages={{
      reports: ["Reports", () => <Reports />],
      sanctions: ["Mutes and bans", () => <Sanctions />],
      words: ["Word lists", () => <Words />],
      channels: ["Channels", () => <Channels />],
    }}
  />
);

const Reports = () => (
  <List
    id="listChatReports"
    filters={["status"]}
    defaults={{ status: "OPEN" }}
    refetchInterval={5_000}
    dialog={["Report", ({ id }, close) => <Report id={id} onDone={close} />]}
    empty="Nothing is reported"
    hint="Players report a message, and it waits here."
    columns={{
      When: "createdAt",
      About: ({ sender }) => nameOf(sender),
      Reason: ({ reason }) => words(reason),
      By: ({ reporter }) => nameOf(reporter),
      Status: "status",
    }}
    wide={["By"]}
  />
);

/** A message as moderators see it: whose it is, what was said, what became of it. */
const Message = ({ message, isMarked = false }: { message: any; isMarked?: boolean }) => (
  <div
    style={
      isMarked ? { borderLeft: "3px solid var(--mantine-color-red-6)", paddingLeft: 8 } : { paddingLeft: 11 }
    }
  >
    <Group gap="xs">
      <Text fw={600}>{nameOf(message.sender)}</Text>
      <Hint size="xs">{moment(message.createdAt)}</Hint>
      {message.moderation !== "VISIBLE" && <Badge color="orange">{words(message.moderation)}</Badge>}
      {message.deletedAt && <Badge color="red">Deleted</Badge>}
    </Group>
    <Text style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
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
type Action = keyof typeof ACTIONS;

const Report = ({ id, onDone }: { id: string; onDone: () => void }) => {
  const report = useApi("getChatReport", { path: { reportId: id } });
  return (
    <Loaded query={report}>
      {({ report: found, context = [], message }: any) => (
        <Stack>
          <Text>
            {`${nameOf(found.reporter)} reports ${nameOf(found.sender)}: ${words(found.reason).toLowerCase()}.`}
            {found.note ? ` “${found.note}”` : ""}
          </Text>
          <Section title="What was said">
            {context.length === 0 && message && <Message message={message} isMarked />}
            {[...context]
              .toSorted((a, b) => a.seq - b.seq)
              .map((one) => (
                <Message key={one.seq} message={one} isMarked={one.seq === found.seq} />
              ))}
          </Section>
          <Decide report={found} onDone={onDone} />
        </Stack>
      )}
    </Loaded>
  );
};

type DecideProps = { report: Answer<"getChatReport">["report"]; onDone: () => void };

const Decide = ({ report: { id, status, reason }, onDone }: DecideProps) => {
  const path = { reportId: id };
  const can = useCan();
  const decide = useAct("updateChatReport", { done: "Decided", onDone });
  const { isBusy, error, send } = useSending();
  if (!can("updateChatReport") || (status !== "OPEN" && status !== "IN_REVIEW")) return null;
  /** A report is decided by whoever has taken it: one moderator at a time. */
  const settle = (body: Body<"updateChatReport">) =>
    send(async () => {
      if (status === "OPEN") await call("updateChatReport", { path, body: { status: "IN_REVIEW" } });
      decide.mutate({ path, body });
    });
  const bodyOf = (action: Action): Body<"updateChatReport"> => ({
    status: "RESOLVED",
    action,
    ...(action === "MUTE" ? { durationSeconds: 86_400 } : {}),
    ...(["MUTE", "BAN", "WARN"].includes(action) ? { reason: words(reason) } : {}),
  });
  return (
    <>
      <Group>
        {(Object.keys(ACTIONS) as Action[]).map((action) =>
          press(ACTIONS[action], settle(bodyOf(action)), {
            isMain: action === "REMOVE",
            loading: isBusy || decide.isPending,
          }),
        )}
        {press("Dismiss the report", settle({ status: "DISMISSED" }))}
      </Group>
      <ErrorNote error={error} />
    </>
  );
};

const Sanctions = () => (
  <List
    beside={create("createChatSanction", "Mute or ban somebody", {
      first: ["playerId", "kind", "durationSeconds", "reason"],
      initial: { kind: "MUTE", durationSeconds: 3600 },
      submit: "Do it",
    })}
    id="listChatSanctions"
    filters={["kind", "active", "appealStatus"]}
    defaults={{ active: "true" }}
    empty="Nobody is muted or banned"
    columns={{
      Player: ({ player }) => nameOf(player),
      What: ({ kind, isAutomatic }) => `${words(kind)}${isAutomatic ? " (automatic)" : ""}`,
      Why: "reason",
      Since: "createdAt",
      Until: ({ expiresAt }) => <When at={expiresAt} never="for ever" />,
      Appeal: ({ appeal }) => appeal && `${words(appeal.status)}: ${appeal.text}`,
    }}
    wide={["Since"]}
    actions={({ id, isActive, player, appeal }) => {
      const path = { sanctionId: id };
      const isOpen = appeal?.status === "OPEN";
      return [
        isOpen && act("answerChatAppeal", "Accept", { path, body: { status: "ACCEPTED" }, isMain: true }),
        isOpen && act("answerChatAppeal", "Reject", { path, body: { status: "REJECTED" } }),
        isActive &&
          ask("revokeChatSanction", "End", {
            path,
            color: "teal",
            title: `Let ${nameOf(player)} speak again?`,
            done: "It has ended",
          }),
      ];
    }}
  />
);

const Words = () => {
  const can = useCan();
  const [open, setOpen] = useState<string>();
  const close = () => setOpen(undefined);
  return (
    <Stack>
      <Rows
        section="Word lists"
        beside={can("putChatWordList") && press("New list", () => setOpen(""), { isMain: true, opens: true })}
        id="listChatWordLists"
        empty="No lists yet"
        hint="The built-in filter knows common words already. Lists add those of your game."
        onRow={({ key }) => setOpen(key)}
        columns={{ List: "key", Action: "action", Words: "wordCount", Changed: "updatedAt" }}
        actions={({ key }) => ask("deleteChatWordList", "Remove", { path: { key }, of: key })}
      />
      {can("testChatFilter") && <TryText />}
      <Modal opened={open !== undefined} onClose={close} title={open === "" ? "New list" : open} size="lg">
        {open !== undefined && <WordList listKey={open} onDone={close} />}
      </Modal>
    </Stack>
  );
};

const TryText = () => {
  const [tested, setTested] = useState<Answer<"testChatFilter">>();
  const test = async (body: { text: string }) => setTested(await call("testChatFilter", { body }));
  return (
    <Section title="Try a text">
      <SmallForm submit="What would happen?" onSubmit={test}>
        <Textarea label="Text" name="text" required />
      </SmallForm>
      {tested && (
        <Text>
          <b>{words(tested.outcome)}</b>
          {tested.content ? `: ${tested.content}` : ""}{" "}
          {tested.words.map(({ word, list }) => `${word} (${list})`).join(", ")}
        </Text>
      )}
    </Section>
  );
};

const WordList = ({ listKey, onDone }: { listKey: string; onDone: () => void }) => {
  const [key, setKey] = useState(listKey);
  const list = useApi("getChatWordList", { path: { key: listKey } }, { enabled: listKey !== "" });
  const formOf = (initial: object) => (
    <OperationForm
      id="putChatWordList"
      path={{ key }}
      initial={initial}

      onDone={onDone}
    />
  );
  if (listKey !== "") return <Loaded query={list}>{formOf}</Loaded>;
  return (
    <Stack>
      <TextInput
        label="Key"
        value={key}
        onChange={(event) => setKey(event.currentTarget.value.trim())}
        required
      />
      {key !== "" && formOf({ action: "MASK", words: [] })}
    </Stack>
  );
};

const Channels = () => {
  const [{ open }, choose] = useFilters();
  return (
    <Stack gap="xs">
      <Group justify="flex-end">
        {create("createChatChannel", "New channel", { first: ["key", "name", "settings"] })}
      </Group>
      <List
        id="listChatChannels"
        filters={["kind", "status"]}
        onRow={({ id }) => choose({ open: id })}
        empty="No channels yet"
        columns={{
          Channel: ({ name, key, id }) => name ?? key ?? id,
          Kind: "kind",
          Status: "status",
          Messages: "lastSeq",
        }}
      />
      <Modal opened={!!open} onClose={() => choose({ open: "" })} title="Channel" size="xl">
        {open && <Channel id={open} />}
      </Modal>
    </Stack>
  );
};

const Channel = ({ id }: { id: string }) => {
  const path = { channelId: id };
  const query = { limit: 50 } as never;
  return (
    <Stack>
      <Read id="getChatChannel" given={{ path }} lines={1}>
        {({ status, name, settings }) => (
          <Group>
            <Status value={status} />
            {status === "LOCKED"
              ? act("unlockChatChannel", "Unlock", { path, done: "Everybody may speak again" })
              : act("lockChatChannel", "Lock", { path, done: "Only moderators may speak" })}
            {form("updateChatChannel", "Settings", { path, initial: { name, settings } })}
          </Group>
        )}
      </Read>
      <Read id="listChatMessages" given={{ path, query }} refetchInterval={3_000}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="Nobody has said anything" />
          ) : (
            <Stack gap="xs">
              {data.map((message) => (
                <Group key={message.seq} justify="space-between" wrap="nowrap" align="flex-start">
                  <Message message={message} />
                  <Moderate message={message} path={{ ...path, seq: message.seq }} />
                </Group>
              ))}
            </Stack>
          )
        }
      </Read>
    </Stack>
  );
};

type ModerateProps = { message: Row<"listChatMessages">; path: { channelId: string; seq: number } };

const Moderate = ({ message: { moderation, deletedAt }, path }: ModerateProps) => (
  <ButtonSize value="compact-xs">
    <Group gap={4} wrap="nowrap">
      {(moderation === "HELD" || moderation === "MASKED") &&
        act("restoreChatMessage", "Show it", { path, done: "Shown again", isMain: true })}
      {!deletedAt && act("deleteChatMessage", "Delete", { path })}
    </Group>
  </ButtonSize>
);
