import { Badge, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { change, tellError, useCan, useRead } from "../api/hooks.ts";
import { type Answer, type Body, call } from "../api/client.ts";
import { nameOf, words } from "../format.ts";
import type { Columns } from "../ui/cells.tsx";
import { act, ask, create, form, OperationForm } from "../ui/operations.tsx";
import { useFilters } from "../ui/filters.tsx";
import { Dialog, Page, press, Section, Status, When } from "../ui/page.tsx";
import { List, PlainTable, Rows } from "../ui/table.tsx";
import { useSending } from "../ui/sending.tsx";

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

type Reviewed = Answer<"getChatReport">["neighbours"][number];
/** The original is shown to whoever reviews a report. */
type Said = Pick<Reviewed, "sender" | "content" | "moderation" | "createdAt" | "deletedAt"> &
  Partial<Pick<Reviewed, "original">>;

/** A message as moderators see it: whose it is, what was said, what became of it. */
const SAID = {
  When: "createdAt",
  Who: ({ sender }) => nameOf(sender),
  Said: ({ original, content }) => (
    <Text style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>{original ?? content}</Text>
  ),
  State: ({ moderation, deletedAt }) =>
    deletedAt ? "Deleted" : moderation !== "VISIBLE" && words(moderation),
} satisfies Columns<Said>;

const Report = ({ id, onDone }: { id: string; onDone: () => void }) => {
  const { report, message, neighbours } = useRead("getChatReport", { path: { reportId: id } });
  const said = [...neighbours, ...(message ? [message] : [])].toSorted((a, b) => a.seq - b.seq);
  return (
    <Stack>
      <Text>
        {`${nameOf(report.reporter)} reports ${nameOf(report.sender)}: ${words(report.reason).toLowerCase()}.`}
        {report.note ? ` “${report.note}”` : ""}
      </Text>
      <PlainTable
        section="What was said"
        rows={said}
        columns={{
          ...SAID,
          Reported: ({ seq }) => seq === report.seq && <Badge color="red">This one</Badge>,
        }}
      />
      <Decide report={report} onDone={onDone} />
    </Stack>
  );
};

/** What becomes of a report, by its words; whoever is warned, muted or banned reads the reason. */
const decisionsOf = (reason: string): Record<string, Body<"updateChatReport">> => ({
  "Remove the message": { status: "RESOLVED", action: "REMOVE" },
  Warn: { status: "RESOLVED", action: "WARN", reason },
  "Mute for a day": { status: "RESOLVED", action: "MUTE", durationSeconds: 86_400, reason },
  Ban: { status: "RESOLVED", action: "BAN", reason },
  "Close without anything": { status: "RESOLVED", action: "NONE" },
  "Dismiss the report": { status: "DISMISSED" },
});

type DecideProps = { report: Answer<"getChatReport">["report"]; onDone: () => void };

const Decide = ({ report: { id, status, reason }, onDone }: DecideProps) => {
  const path = { reportId: id };
  const can = useCan();
  const { isBusy, send } = useSending(tellError);
  if (!can("updateChatReport") || (status !== "OPEN" && status !== "IN_REVIEW")) return null;
  /** A report is decided by whoever has taken it: one moderator at a time. */
  const settle = (body: Body<"updateChatReport">) =>
    send(async () => {
      if (status === "OPEN") await call("updateChatReport", { path, body: { status: "IN_REVIEW" } });
      await change("updateChatReport", { path, body }, "Decided");
      onDone();
    });
  return (
    <Group>
      {Object.entries(decisionsOf(words(reason))).map(([label, body], index) =>
        press(label, settle(body), { isMain: index === 0, loading: isBusy }),
      )}
    </Group>
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
  return (
    <Stack>
      <Rows
        section="Word lists"
        beside={create("putChatWordList", "New list", { initial: { action: "MASK", words: [] } })}
        id="listChatWordLists"
        empty="No lists yet"
        hint="The built-in filter knows common words already. Lists add those of your game."
        dialog={[({ key }) => key, ({ key }, close) => <WordList path={{ key }} onDone={close} />]}
        columns={{ List: "key", Action: "action", Words: "wordCount", Changed: "updatedAt" }}
        actions={({ key }) => ask("deleteChatWordList", "Remove", { path: { key }, of: key })}
      />
      {can("testChatFilter") && <TryText />}
    </Stack>
  );
};

const WordList = ({ path, onDone }: { path: { key: string }; onDone: () => void }) => {
  const initial = useRead("getChatWordList", { path });
  return <OperationForm id="putChatWordList" path={path} initial={initial} onDone={onDone} />;
};

const TryText = () => {
  const [tested, setTested] = useState<Answer<"testChatFilter">>();
  return (
    <Section title="Try a text">
      <OperationForm
        id="testChatFilter"
        hidden={["channelId"]}
        submit="What would happen?"
        done=""
        onDone={setTested}
      />
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

const Channels = () => {
  const [{ open }, choose] = useFilters();
  return (
    <>
      <List
        beside={create("createChatChannel", "New channel", { first: ["key", "name", "settings"] })}
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
      <Dialog isOpen={!!open} onClose={() => choose({ open: "" })} title="Channel">
        {() => <Channel path={{ channelId: open! }} />}
      </Dialog>
    </>
  );
};

const Channel = ({ path }: { path: { channelId: string } }) => {
  const { status, name, settings } = useRead("getChatChannel", { path });
  return (
    <Stack>
      <Group>
        <Status value={status} />
        {status === "LOCKED"
          ? act("unlockChatChannel", "Unlock", { path, done: "Everybody may speak again" })
          : act("lockChatChannel", "Lock", { path, done: "Only moderators may speak" })}
        {form("updateChatChannel", "Settings", { path, initial: { name, settings } })}
      </Group>
      <Rows
        id="listChatMessages"
        given={{ path, query: { limit: 50 } as never }}
        refetchInterval={3_000}
        empty="Nobody has said anything"
        columns={SAID}
        actions={({ seq, moderation, deletedAt }) => [
          (moderation === "HELD" || moderation === "MASKED") &&
            act("restoreChatMessage", "Show it", {
              path: { ...path, seq },
              done: "Shown again",
              isMain: true,
            }),
          !deletedAt && act("deleteChatMessage", "Delete", { path: { ...path, seq } }),
        ]}
      />
    </Stack>
  );
};
