import type { Answer } from "../api/client.ts";
import { Button, Group, Modal, Progress, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import { useAct, useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { number, words } from "../format.ts";
import { Effect } from "../ui/effects.tsx";
import { KeyChoice } from "../ui/values.tsx";
import { OperationForm } from "../ui/form.tsx";
import { Empty, Loaded } from "../ui/page.tsx";
import { Confirm, Section, Status, When } from "../ui/small.tsx";
import { List, PlainTable } from "../ui/table.tsx";

type Player = Answer<"getPlayer">;

export const Timeline = ({ player }: { player: Player }) => (
  <List
    id="listPlayerActivity"
    path={{ playerId: player.id }}
    name="Timeline"
    filters={["types"]}
    refetchInterval={5_000}
    empty={<Empty title="Nothing has happened yet" />}
    columns={[
      { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
      { title: "What", cell: ({ type, data }) => <Effect type={type} data={data} /> },
    ]}
  />
);

export const Ledger = ({ player }: { player: Player }) => {
  const path = { playerId: player.id };
  const verified = useApi("verifyLedger", { path });
  return (
    <Stack gap="xs">
      {verified.data && (
        <Text size="sm" c={verified.data.valid ? "dimmed" : "var(--mantine-color-error)"}>
          {verified.data.valid
            ? `All ${number(verified.data.entries)} entries are unchanged since they were written.`
            : `Entry ${verified.data.firstInvalidSeq} is not what was written.`}
        </Text>
      )}
      <List
        id="listLedger"
        path={path}
        name="Ledger"
        filters={["asset", "currencyKey", "from", "to"]}
        columns={[
          { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
          { title: "Of", cell: ({ asset, currencyKey }) => words(currencyKey ?? asset) },
          {
            title: "Amount",
            isNumber: true,
            cell: ({ amount }) => (
              <Text
                span
                size="sm"
                c={amount < 0 ? "var(--mantine-color-error)" : "var(--mantine-color-anchor)"}
              >
                {`${amount > 0 ? "+" : ""}${number(amount)}`}
              </Text>
            ),
          },
          { title: "Balance", isNumber: true, cell: ({ balanceAfter }) => number(balanceAfter) },
          { title: "Why", cell: ({ reason, cause }) => <Cause reason={reason} cause={cause} /> },
        ]}
      />
    </Stack>
  );
};

/** What made an entry: the rule, quest or person. */
const Cause = ({ reason, cause }: { reason: string; cause: unknown }) => {
  const { type, ...rest } = cause as Record<string, unknown>;
  const about = Object.entries(rest)
    .filter(([name, value]) => typeof value === "string" && /key|reason|actor|by/i.test(name))
    .map(([, value]) => String(value));
  return (
    <Text size="sm">
      {words(reason)}
      <Text
        span
        size="xs"
        c="dimmed"
      >{`  ${[words(String(type ?? "")), ...about].filter(Boolean).join(" · ")}`}</Text>
    </Text>
  );
};

export const Badges = ({ player }: { player: Player }) => {
  const can = useCan();
  const path = { playerId: player.id };
  const [key, setKey] = useState("");
  const [isOpen, setOpen] = useState(false);
  const revoke = useAct("revokeBadge", { done: "Taken away" });
  return (
    <Stack gap="xs">
      {can("awardBadge") && (
        <Group justify="flex-end">
          <Button size="xs" onClick={() => setOpen(true)} aria-haspopup="dialog">
            Award a badge
          </Button>
        </Group>
      )}
      <Modal opened={isOpen} onClose={() => setOpen(false)} title="Award a badge">
        <Stack>
          <KeyChoice kind="badge" label="Badge" value={key} onChange={setKey} />
          {key !== "" && (
            <OperationForm
              id="awardBadge"
              path={{ ...path, badgeId: key }}
              first={["tier", "reason"]}
              submit="Award"
              done="Awarded"
              onDone={() => setOpen(false)}
            />
          )}
        </Stack>
      </Modal>
      <List
        id="listPlayerBadges"
        path={path}
        name="Badges"
        filters={["state"]}
        empty={<Empty title="No badges yet" />}
        columns={[
          { title: "Badge", cell: ({ name }) => name },
          { title: "Rarity", cell: ({ rarity }) => words(rarity), isWideOnly: true },
          {
            title: "Tier",
            cell: ({ tier, tierName, maxTier }) => (tier > 0 ? `${tierName ?? tier} of ${maxTier}` : "–"),
          },
          {
            title: "Progress",
            cell: ({ percent }) => <Progress value={percent} aria-label={`${percent} %`} miw={80} />,
          },
          { title: "Earned", cell: ({ lastEarnedAt }) => <When at={lastEarnedAt} /> },
        ]}
        actions={
          can("revokeBadge")
            ? ({ badgeId, name, tier }) =>
                tier > 0 && (
                  <Confirm
                    label="Take away"
                    title={`Take ${name} away?`}
                    onConfirm={() => revoke.mutateAsync({ path: { ...path, badgeId } })}
                  >
                    The player loses the badge; what it has given stays.
                  </Confirm>
                )
            : undefined
        }
        keyOf={({ badgeId }) => badgeId}
      />
    </Stack>
  );
};

export const Goals = ({ player }: { player: Player }) => {
  const path = { playerId: player.id };
  const quests = useApi("listPlayerQuests", { path });
  const streaks = useApi("listPlayerStreaks", { path });
  return (
    <Stack>
      <Section title="Quests">
        <Loaded query={quests}>
          {({ data }) =>
            data.length === 0 ? (
              <Empty title="No quests" />
            ) : (
              <PlainTable
                name="Quests"
                rows={data}
                keyOf={({ questId, cycleKey }) => `${questId} ${cycleKey}`}
                columns={[
                  { title: "Quest", cell: ({ name }) => name },
                  { title: "State", cell: ({ state }) => <Status value={state} /> },
                  {
                    title: "Progress",
                    cell: ({ percent }) => <Progress value={percent} aria-label={`${percent} %`} miw={80} />,
                  },
                  { title: "Ends", cell: ({ expiresAt }) => <When at={expiresAt} />, isWideOnly: true },
                ]}
              />
            )
          }
        </Loaded>
      </Section>
      <Section title="Streaks">
        <Loaded query={streaks}>
          {({ data }) =>
            data.length === 0 ? (
              <Empty title="No streaks" />
            ) : (
              <PlainTable
                name="Streaks"
                rows={data}
                keyOf={({ streakKey }) => streakKey}
                columns={[
                  { title: "Streak", cell: ({ name }) => name },
                  { title: "Now", cell: ({ current }) => number(current), isNumber: true },
                  { title: "Longest", cell: ({ longest }) => number(longest), isNumber: true },
                  { title: "Status", cell: ({ status }) => <Status value={status} /> },
                  { title: "Freezes", cell: ({ freezes, maxFreezes }) => `${freezes} of ${maxFreezes}` },
                  { title: "Until", cell: ({ deadlineAt }) => <When at={deadlineAt} /> },
                ]}
              />
            )
          }
        </Loaded>
      </Section>
    </Stack>
  );
};

export const Rewards = ({ player }: { player: Player }) => {
  const path = { playerId: player.id };
  const inbox = useApi("listInbox", { path });
  return (
    <Stack>
      <Section title="Rewards">
        <List
          id="listPlayerRewards"
          path={path}
          name="Rewards"
          filters={["status", "rewardKey"]}
          empty={<Empty title="No rewards yet" />}
          columns={[
            { title: "Reward", cell: ({ name, rewardKey }) => name ?? rewardKey },
            { title: "Kind", cell: ({ kind }) => words(kind) },
            { title: "Quantity", cell: ({ quantity }) => number(quantity), isNumber: true },
            { title: "Status", cell: ({ status }) => <Status value={status} /> },
            { title: "Given", cell: ({ createdAt }) => <When at={createdAt} /> },
          ]}
        />
      </Section>
      <Section title="Inbox">
        <Loaded query={inbox}>
          {({ data }) =>
            data.length === 0 ? (
              <Empty title="No messages" />
            ) : (
              <PlainTable
                name="Messages"
                rows={data}
                columns={[
                  { title: "Sent", cell: ({ createdAt }) => <When at={createdAt} /> },
                  { title: "Title", cell: ({ title }) => title },
                  { title: "Read", cell: ({ readAt }) => <When at={readAt} /> },
                ]}
              />
            )
          }
        </Loaded>
      </Section>
    </Stack>
  );
};

export const Events = ({ player }: { player: Player }) => {
  const to = useTo();
  const [, go] = useLocation();
  return (
    <List
      id="listEvents"
      name="Events of the player"
      query={{ playerId: player.id }}
      filters={["eventType", "status"]}
      onRow={({ id }) => go(to(`/events/${id}`))}
      columns={[
        { title: "When", cell: ({ receivedAt }) => <When at={receivedAt} /> },
        { title: "Event", cell: ({ eventType }) => eventType },
        { title: "Status", cell: ({ status }) => <Status value={status} /> },
        {
          title: "Properties",
          isWideOnly: true,
          cell: ({ properties }) => (
            <Text className="mono" maw={480} truncate>
              {JSON.stringify(properties)}
            </Text>
          ),
        },
      ]}
    />
  );
};
