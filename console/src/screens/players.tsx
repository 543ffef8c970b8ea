import { Group, Progress, Stack, Text } from "@mantine/core";
import type { Answer, Row } from "../api/client.ts";
import { useActors, useApi, useGo, useRead } from "../api/hooks.ts";
import { count, moment, nameOf, number, words } from "../format.ts";
import { EventList } from "./events.tsx";
import { Facts, Effect } from "../ui/cells.tsx";
import { ask, create, form } from "../ui/operations.tsx";
import { Chips, Copied, Json, Named, Page, Section, Tiles } from "../ui/page.tsx";
import { List, Rows } from "../ui/table.tsx";

const FILTERS =
  "search status tag segment minLevel maxLevel attribute value currencyKey minBalance sort order".split(" ");

export const Players = () => {
  const go = useGo();
  return (
    <Page
      title="Players"
      actions={create("identifyPlayer", "Add a player", {
        first: ["externalUserId", "displayName"],
        onDone: ({ id }) => go(`/players/${id}`),
      })}
    >
      <List
        id="listPlayers"
        filters={FILTERS}
        to={({ id }) => `/players/${id}`}
        empty="No players yet"
        hint="They appear with their first event."
        columns={{
          Player: (player) => (
            <Named name={nameOf(player)} more={player.displayName && player.externalUserId} />
          ),
          Level: "level",
          XP: "xp",
          Currencies: ({ currencies }) => (
            <Chips
              of={Object.entries(currencies)
                .slice(0, 3)
                .map(([key, amount]) => count(amount, key))}
            />
          ),
          Tags: ({ tags }) => <Chips of={tags.slice(0, 3)} />,
          Status: "status",
          "Last seen": "lastSeenAt",
        }}
        wide={["Currencies", "Tags", "Status"]}
      />
    </Page>
  );
};

type Player = Answer<"getPlayer">;

export const PlayerPage = ({ id }: { id: string }) => {
  const player = useRead("getPlayer", { path: { playerId: id } });
  const path = { playerId: player.id };
  return (
    <Page
      title={nameOf(player)}
      parent={["Players", "/players"]}
      pages={{
        timeline: ["Timeline", () => <Timeline path={path} />],
        ledger: ["Ledger", () => <Ledger path={path} />],
        badges: ["Badges", () => <Badges path={path} />],
        goals: ["Quests and streaks", () => <Goals path={path} />],
        rewards: ["Rewards and inbox", () => <Rewards path={path} />],
        events: ["Events", () => <EventList query={path} filters={["eventType", "status"]} />],
        data: ["Data", () => <Data player={player} />],
      }}
    >
      <Changes player={player} />
      <Numbers player={player} />
      <Facts
        of={player}
        show={{
          Status: "status",
          "External user ID": ({ externalUserId }) => <Copied value={externalUserId} />,
          ID: () => <Copied value={player.id} />,
          "Last seen": "lastSeenAt",
          "First seen": "firstSeenAt",
          Country: "country",
          "Time zone": "timezone",
          Tags: ({ tags }) => (tags.length > 0 ? <Chips of={tags} /> : "–"),
        }}
      />
    </Page>
  );
};

/** What the player has, now. */
const Numbers = ({ player: { level, levelProgress, xp, currencies, lives } }: { player: Player }) => {
  const { levelName, percent, xpForNextLevel: next } = levelProgress;
  const purse = Object.entries(currencies).map(([key, amount]) => [words(key), amount] as const);
  return (
    <>
      <Tiles
        of={{
          [levelName ? `Level · ${levelName}` : "Level"]: [
            level,
            <Progress value={percent} size="sm" mt={4} aria-label="To the next level" />,
          ],
          XP: [xp, next == null ? "Highest level" : `Next level at ${number(next)}`],
          Lives: lives
            ? [`${lives.current} of ${lives.max}`, lives.nextLifeAt && `Next ${moment(lives.nextLifeAt)}`]
            : undefined,
        }}
      />
      <Tiles of={Object.fromEntries(purse)} />
    </>
  );
};

/** Grants and changes of a player, each with its reason. */
const Changes = ({ player }: { player: Player }) => {
  const { displayName, country, timezone, locale, tags, attributes, status } = player;
  const path = { playerId: player.id };
  const grant = { path, first: ["amount", "reason"] };
  const initial = { displayName, country, timezone, locale, tags, attributes };
  return (
    <Group gap="xs">
      {form("grantXp", "Grant XP", grant)}
      {form("grantCurrency", "Grant currency", grant)}
      {form("spendCurrency", "Take currency", grant)}
      {form("grantLives", "Give lives", { path })}
      {form("startPlayerBoost", "Start a boost", { path })}
      {form("sendMessage", "Send a message", { path, first: ["title", "body", "rewardKey"] })}
      {form("updatePlayer", "Change the profile", { path, initial })}
      {form("setPlayerStatus", "Change the status", { path, initial: { status } })}
    </Group>
  );
};

type Props = { path: { playerId: string } };

const Timeline = ({ path }: Props) => (
  <List
    id="listPlayerActivity"
    path={path}
    filters={["types"]}
    refetchInterval={5_000}
    empty="Nothing has happened yet"
    columns={{ When: "createdAt", What: ({ type, data }) => <Effect type={type} data={data} /> }}
  />
);

const Ledger = ({ path }: Props) => {
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
          Why: (row) => <Why {...row} />,
        }}
        right={["Amount"]}
      />
    </Stack>
  );
};

/** Why there is an entry, and what made it: the rule, quest or person. */
const Why = ({ reason, cause }: Row<"listLedger">) => {
  const actors = useActors();
  const { type, ...rest } = cause as Record<string, unknown>;
  const about = Object.entries(rest)
    .filter(([name, value]) => typeof value === "string" && /key|reason|actor|by/i.test(name))
    .map(([, value]) => actors.get(value) ?? String(value));
  return (
    <Named name={words(reason)} more={[words(String(type ?? "")), ...about].filter(Boolean).join(" · ")} />
  );
};

const progressOf = ({ percent }: { percent: number }) => (
  <Progress value={percent} aria-label={`${percent} %`} miw={80} />
);

const Badges = ({ path }: Props) => (
  <List
    beside={create("awardBadge", "Award a badge", { path, submit: "Award" })}
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
);

const Goals = ({ path }: Props) => (
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

const Rewards = ({ path }: Props) => (
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

const Data = ({ player: { id, externalUserId, attributes } }: { player: Player }) => {
  const go = useGo();
  const path = { playerId: id };
  const { data } = useRead("listPlayerIdentities", { path });
  return (
    <Stack>
      <Section title="Attributes">
        <Json value={attributes} />
      </Section>
      <Section title="IDs">
        <Chips of={data.map(({ provider, externalId }) => `${provider}: ${externalId}`)} />
      </Section>
      <Group>
        {form("exportPlayer", "Export everything", { path, job: ["Export of the player"] })}
        {form("mergePlayer", "Merge another player in", {
          path,
          first: ["sourcePlayerId", "dryRun"],
          about:
            "What the other player owns moves here, and the other player is gone. With a dry run you see what would happen.",
          tells: ({ summary: { xp, level } }) => <Tiles of={{ XP: xp.result, Level: level.result }} />,
        })}
        {ask("erasePlayer", "Erase", {
          path,
          body: { reason: "asked in the console" },
          title: "Erase the player?",
          name: externalUserId,
          done: "The player is being erased",
          onDone: () => go("/players"),
          text: "Everything that is known of this person goes: profile, messages, properties of events. Totals of the game stay. This cannot be undone.",
        })}
      </Group>
    </Stack>
  );
};
