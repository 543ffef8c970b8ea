import { Button, Group, Menu, Modal, Progress, SimpleGrid, Stack } from "@mantine/core";
import { useState } from "react";
import type { Answer } from "../api/client.ts";
import { useApi, useCan, useGo } from "../api/hooks.ts";
import { count, moment, nameOf, number, words } from "../format.ts";
import { Badges, Events, Goals, Ledger, Rewards, Timeline } from "./player-parts.tsx";
import { Facts } from "../ui/cells.tsx";
import { JobProgress } from "../ui/job.tsx";
import { act, ask, create, form, OperationForm } from "../ui/operations.tsx";
import { Chips, Copied, Json, Loaded, Named, Page, Pages, Read, Section, Tile } from "../ui/page.tsx";
import { List } from "../ui/table.tsx";

/** The first of a player's currencies: 3 coins. */
const purseOf = (currencies: Record<string, number>): string[] =>
  Object.entries(currencies)
    .slice(0, 3)
    .map(([key, amount]) => count(amount, key));

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
        filters={["search", "status", "tag", "segment", "minLevel", "maxLevel", "sort", "order"]}
        to={({ id }) => `/players/${id}`}
        empty="No players yet"
        hint="They appear with their first event."
        columns={{
          Player: (player) => (
            <Named name={nameOf(player)} more={player.displayName && player.externalUserId} />
          ),
          Level: "level",
          XP: "xp",
          Currencies: ({ currencies }) => <Chips of={purseOf(currencies as Record<string, number>)} />,
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
  const player = useApi("getPlayer", { path: { playerId: id } });
  const data = player.data;
  return (
    <Page
      title={data ? nameOf(data) : "Player"}
      parent={["Players", "/players"]}
      actions={data && <Actions player={data} />}
    >
      <Loaded query={player}>{(found) => <Whole player={found} />}</Loaded>
    </Page>
  );
};

const Whole = ({ player }: { player: Player }) => {
  const { levelProgress, currencies, lives } = player;
  const [job, setJob] = useState<string>();
  return (
    <Stack>
      <SimpleGrid cols={{ base: 2, md: 4 }}>
        <Tile
          name={levelProgress.levelName ? `Level · ${levelProgress.levelName}` : "Level"}
          value={player.level}
          note={<Progress value={levelProgress.percent} size="sm" mt={4} aria-label="To the next level" />}
        />
        <Tile
          name="XP"
          value={player.xp}
          note={
            levelProgress.xpForNextLevel == null
              ? "Highest level"
              : `Next level at ${number(levelProgress.xpForNextLevel)}`
          }
        />
        {Object.entries(currencies as Record<string, number>).map(([key, amount]) => (
          <Tile key={key} name={words(key)} value={amount} />
        ))}
        {lives && (
          <Tile
            name="Lives"
            value={`${lives.current} of ${lives.max}`}
            note={lives.nextLifeAt && `Next ${moment(lives.nextLifeAt)}`}
          />
        )}
      </SimpleGrid>
      <Facts
        of={player}
        show={{
          Status: "status",
          "External user ID": ({ externalUserId }) => <Copied value={externalUserId} />,
          ID: ({ id }) => (
            <span className="mono">
              <Copied value={id} />
            </span>
          ),
          "Last seen": "lastSeenAt",
          "First seen": "firstSeenAt",
          Country: "country",
          "Time zone": "timezone",
          Tags: ({ tags }) => (tags.length > 0 ? <Chips of={tags} /> : "–"),
        }}
      />
      {job && <JobProgress id={job} title="Export of the player" />}
      <Pages
        pages={{
          timeline: ["Timeline", () => <Timeline player={player} />],
          ledger: ["Ledger", () => <Ledger player={player} />],
          badges: ["Badges", () => <Badges player={player} />],
          goals: ["Quests and streaks", () => <Goals player={player} />],
          rewards: ["Rewards and inbox", () => <Rewards player={player} />],
          events: ["Events", () => <Events player={player} />],
          data: ["Data", () => <Data player={player} onJob={setJob} />],
        }}
      />
    </Stack>
  );
};

/** Grants and changes of a player, each with its reason. */
const Actions = ({ player }: { player: Player }) => {
  const can = useCan();
  const [open, setOpen] = useState<string>();
  if (!can("grantXp")) return null;
  const close = () => setOpen(undefined);
  const path = { playerId: player.id };
  const shared = { path, onDone: close };
  const currency = { ...shared, first: ["amount", "reason"] };
  const { displayName, country, timezone, locale, tags, attributes, status } = player;
  const profile = { displayName, country, timezone, locale, tags, attributes };
  const entries: Record<string, React.ReactNode> = {
    "Grant XP": (
      <OperationForm {...shared} id="grantXp" first={["amount", "reason"]} submit="Grant" done="Granted" />
    ),
    "Grant currency": <OperationForm {...currency} id="grantCurrency" submit="Grant" done="Granted" />,
    "Take currency": <OperationForm {...currency} id="spendCurrency" submit="Take" done="Taken" />,
    "Give lives": <OperationForm {...shared} id="grantLives" submit="Give" done="Given" />,
    "Start a boost": <OperationForm {...shared} id="startPlayerBoost" submit="Start" done="Started" />,
    "Send a message": (
      <OperationForm
        {...shared}
        id="sendMessage"
        first={["title", "body", "rewardKey"]}
        submit="Send"
        done="Sent"
      />
    ),
    "Change the profile": <OperationForm {...shared} id="updatePlayer" initial={profile} done="Changed" />,
    "Change the status": (
      <OperationForm
        {...shared}
        id="setPlayerStatus"
        initial={{ status }}
        first={["status", "reason"]}
        done="Changed"
      />
    ),
  };
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button>Grant or change</Button>
        </Menu.Target>
        <Menu.Dropdown>
          {Object.keys(entries).map((name) => (
            <Menu.Item key={name} onClick={() => setOpen(name)}>
              {name}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <Modal opened={open !== undefined} onClose={close} title={open} size="lg">
        {open && entries[open]}
      </Modal>
    </>
  );
};

const Data = ({ player, onJob }: { player: Player; onJob: (id: string) => void }) => {
  const can = useCan();
  const go = useGo();
  const path = { playerId: player.id };
  return (
    <Stack>
      <Section title="Attributes">
        <Json value={player.attributes} />
      </Section>
      <Section title="IDs">
        <Read id="listPlayerIdentities" given={{ path }} lines={2}>
          {({ data }) => <Chips of={data.map(({ provider, externalId }) => `${provider}: ${externalId}`)} />}
        </Read>
      </Section>
      {can("erasePlayer") && (
        <Section title="All of it">
          <Group>
            {act("exportPlayer", "Export everything", { path, onDone: ({ id }) => onJob(id) })}
            {form("mergePlayer", "Merge another player in", {
              path,
              first: ["sourcePlayerId", "dryRun"],
              about:
                "What the other player owns moves here, and the other player is gone. With a dry run you see what would happen.",
            })}
            {ask("erasePlayer", "Erase", {
              path,
              body: { reason: "asked in the console" },
              title: "Erase the player?",
              name: player.externalUserId,
              done: "The player is being erased",
              onDone: () => go("/players"),
              text: "Everything that is known of this person goes: profile, messages, properties of events. Totals of the game stay. This cannot be undone.",
            })}
          </Group>
        </Section>
      )}
    </Stack>
  );
};
