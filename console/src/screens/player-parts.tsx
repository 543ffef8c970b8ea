import { Group, Progress, Stack, Text } from "@mantine/core";
import type { Answer } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { number, words } from "../format.ts";
import { ask, create } from "../ui/operations.tsx";
import { Effect } from "../ui/effects.tsx";
import { JsonLine } from "../ui/page.tsx";
import { List, Rows } from "../ui/table.tsx";

type Props = { player: Answer<"getPlayer"> };

export const Timeline = ({ player }: Props) => (
  <List
    id="listPlayerActivity"
    path={{ playerId: player.id }}
    filters={["types"]}
    refetchInterval={5_000}
    empty="Nothing has happened yet"
    columns={{ When: "createdAt", What: ({ type, data }) => <Effect type={type} data={data} /> }}
  />
);

export const Ledger = ({ player }: Props) => {
  const path = { playerId: player.id };
  const { data: verified } = useApi("verifyLedger", { path });
  return (
    <Stack gap="xs">
      {verified && (
        <Text c={verified.valid ? "dimmed" : "var(--mantine-color-error)"}>
          {verified.valid
            ? `All ${number(verified.entries)} entries are unchanged since they were written.`
            : `Entry ${verified.firstInvalidSeq} is not what was written.`}
        </Text>
      )}
      <List
        id="listLedger"
        path={path}
        filters={["asset", "currencyKey", "from", "to"]}
        columns={{
          When: "createdAt",
          Of: ({ asset, currencyKey }) => words(currencyKey ?? asset),
          Amount: ({ amount }) => (
            <Text span c={`var(--mantine-color-${amount < 0 ? "error" : "anchor"})`}>
              {`${amount > 0 ? "+" : ""}${number(amount)}`}
            </Text>
          ),
          Balance: "balanceAfter",
          Why: ({ reason, cause }) => <Cause reason={reason} cause={cause} />,
        }}
        right={["Amount"]}
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
    <Text>
      {words(reason)}
      <Text
        span
        size="xs"
        c="dimmed"
      >{`  ${[words(String(type ?? "")), ...about].filter(Boolean).join(" · ")}`}</Text>
    </Text>
  );
};

const progressOf = ({ percent }: { percent: number }) => (
  <Progress value={percent} aria-label={`${percent} %`} miw={80} />
);

export const Badges = ({ player }: Props) => {
  const path = { playerId: player.id };
  return (
    <Stack gap="xs">
      <Group justify="flex-end">{create("awardBadge", "Award a badge", { path, submit: "Award" })}</Group>
      <List
        id="listPlayerBadges"
        path={path}
        filters={["state"]}
        empty="No badges yet"
        columns={{
          Badge: "name",
          Rarity: "rarity",
          Tier: ({ tier, tierName, maxTier }) => (tier > 0 ? `${tierName ?? tier} of ${maxTier}` : "–"),
          Progress: progressOf,
          Earned: "lastEarnedAt",
        }}
        wide={["Rarity"]}
        actions={({ badgeId, name, tier }) =>
          tier > 0 &&
          ask("revokeBadge", "Take away", {
            path: { ...path, badgeId },
            title: `Take ${name} away?`,
            text: "The player loses the badge; what it has given stays.",
          })
        }
      />
    </Stack>
  );
};

export const Goals = ({ player }: Props) => {
  const path = { playerId: player.id };
  return (
    <Stack>
      <Rows
        section="Quests"
        id="listPlayerQuests"
        given={{ path }}
        empty="No quests"
        keyOf={({ questId, cycleKey }) => `${questId} ${cycleKey}`}
        columns={{ Quest: "name", State: "state", Progress: progressOf, Ends: "expiresAt" }}
        wide={["Ends"]}
      />
      <Rows
        section="Streaks"
        id="listPlayerStreaks"
        given={{ path }}
        empty="No streaks"
        keyOf={({ streakKey }) => streakKey}
        columns={{
          Streak: "name",
          Now: "current",
          Longest: "longest",
          Status: "status",
          Freezes: ({ freezes, maxFreezes }) => `${freezes} of ${maxFreezes}`,
          Until: "deadlineAt",
        }}
      />
    </Stack>
  );
};

export const Rewards = ({ player }: Props) => {
  const path = { playerId: player.id };
  return (
    <Stack>
      <List
        section="Rewards"
        id="listPlayerRewards"
        path={path}
        filters={["status", "rewardKey"]}
        empty="No rewards yet"
        columns={{
          Reward: ({ name, rewardKey }) => name ?? rewardKey,
          Kind: "kind",
          Quantity: "quantity",
          Status: "status",
          Given: "createdAt",
        }}
      />
      <Rows
        section="Inbox"
        id="listInbox"
        given={{ path }}
        empty="No messages"
        columns={{ Sent: "createdAt", Title: "title", Read: "readAt" }}
      />
    </Stack>
  );
};

export const Events = ({ player }: Props) => (
  <List
    id="listEvents"
    query={{ playerId: player.id }}
    filters={["eventType", "status"]}
    to={({ id }) => `/events/${id}`}
    columns={{
      When: "receivedAt",
      Event: "eventType",
      Status: "status",
      Properties: ({ properties }) => <JsonLine value={properties} />,
    }}
    wide={["Properties"]}
  />
);
