import { Act } from "../ui/act.tsx";
import { Badge, Button, Group, Menu, Modal, Progress, SimpleGrid, Stack } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import type { Answer } from "../api/client.ts";
import { useAct, useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { moment, number, words } from "../format.ts";
import { KeyChoice } from "../ui/values.tsx";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { JobProgress } from "../ui/job.tsx";
import { Loaded, Page } from "../ui/page.tsx";
import { Chips, Confirm, CopyIcon, Facts, Json, Section, Status, Tile, When } from "../ui/small.tsx";
import { Pages } from "../ui/tabs.tsx";
import { Timeline, Ledger, Badges, Goals, Rewards, Events } from "./player-parts.tsx";

export type Player = Answer<"getPlayer">;

export const PlayerPage = ({ id }: { id: string }) => {
  const player = useApi("getPlayer", { path: { playerId: id } });
  const to = useTo();
  const data = player.data;
  return (
    <Page
      title={data ? (data.displayName ?? data.externalUserId) : "Player"}
      parent={{ title: "Players", to: to("/players") }}
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
          value={number(player.level)}
          note={<Progress value={levelProgress.percent} size="sm" mt={4} aria-label="To the next level" />}
        />
        <Tile
          name="XP"
          value={number(player.xp)}
          note={
            levelProgress.xpForNextLevel == null
              ? "Highest level"
              : `Next level at ${number(levelProgress.xpForNextLevel)}`
          }
        />
        {Object.entries(currencies as Record<string, number>).map(([key, amount]) => (
          <Tile key={key} name={words(key)} value={number(amount)} />
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
        of={{
          Status: <Status value={player.status} />,
          "External user ID": (
            <>
              {player.externalUserId} <CopyIcon value={player.externalUserId} />
            </>
          ),
          ID: (
            <>
              <span className="mono">{player.id}</span> <CopyIcon value={player.id} />
            </>
          ),
          "Last seen": <When at={player.lastSeenAt} />,
          "First seen": <When at={player.firstSeenAt} />,
          Country: player.country,
          "Time zone": player.timezone,
          Tags: player.tags.length > 0 ? <Chips of={player.tags} /> : "–",
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
  const [currency, setCurrency] = useState("");
  const path = { playerId: player.id };
  if (!can("grantXp")) return null;
  const close = () => setOpen(undefined);
  const entries: Record<string, React.ReactNode> = {
    "Grant XP": (
      <OperationForm
        id="grantXp"
        path={path}
        first={["amount", "reason"]}
        submit="Grant"
        done="Granted"
        onDone={close}
      />
    ),
    "Grant currency": (
      <Stack>
        <KeyChoice kind="currency" label="Currency" value={currency} onChange={setCurrency} />
        {currency !== "" && (
          <OperationForm
            id="grantCurrency"
            path={{ ...path, currencyKey: currency }}
            first={["amount", "reason"]}
            submit="Grant"
            done="Granted"
            onDone={close}
          />
        )}
      </Stack>
    ),
    "Take currency": (
      <Stack>
        <KeyChoice kind="currency" label="Currency" value={currency} onChange={setCurrency} />
        {currency !== "" && (
          <OperationForm
            id="spendCurrency"
            path={{ ...path, currencyKey: currency }}
            first={["amount", "reason"]}
            submit="Take"
            done="Taken"
            onDone={close}
          />
        )}
      </Stack>
    ),
    "Give lives": <OperationForm id="grantLives" path={path} submit="Give" done="Given" onDone={close} />,
    "Start a boost": (
      <OperationForm id="startPlayerBoost" path={path} submit="Start" done="Started" onDone={close} />
    ),
    "Send a message": (
      <OperationForm
        id="sendMessage"
        path={path}
        first={["title", "body", "rewardKey"]}
        submit="Send"
        done="Sent"
        onDone={close}
      />
    ),
    "Change the profile": (
      <OperationForm
        id="updatePlayer"
        path={path}
        initial={{
          displayName: player.displayName ?? undefined,
          country: player.country ?? undefined,
          timezone: player.timezone ?? undefined,
          locale: player.locale ?? undefined,
          tags: player.tags,
          attributes: player.attributes,
        }}
        done="Changed"
        onDone={close}
      />
    ),
    "Change the status": (
      <OperationForm
        id="setPlayerStatus"
        path={path}
        initial={{ status: player.status }}
        first={["status", "reason"]}
        done="Changed"
        onDone={close}
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
  const [, go] = useLocation();
  const to = useTo();
  const path = { playerId: player.id };
  const identities = useApi("listPlayerIdentities", { path });
  const erase = useAct("erasePlayer", { done: "The player is being erased" });
  return (
    <Stack>
      <Section title="Attributes">
        <Json value={player.attributes} />
      </Section>
      <Section title="IDs">
        <Loaded query={identities} lines={2}>
          {({ data }) => (
            <Group gap={4}>
              {data.map(({ provider, externalId }) => (
                <Badge key={`${provider} ${externalId}`} color="gray">{`${provider}: ${externalId}`}</Badge>
              ))}
            </Group>
          )}
        </Loaded>
      </Section>
      {can("erasePlayer") && (
        <Section title="All of it">
          <Group>
            <Act id="exportPlayer" path={path} onDone={({ id }) => onJob(id)} size="xs">
              Export everything
            </Act>
            <FormButton
              id="mergePlayer"
              path={path}
              label="Merge another player in"
              size="xs"
              variant="default"
              first={["sourcePlayerId", "dryRun"]}
              about="What the other player owns moves here, and the other player is gone. With a dry run you see what would happen."
              done="Merged"
            />
            <Confirm
              label="Erase"
              title="Erase the player?"
              name={player.externalUserId}
              onConfirm={async () => {
                const { id } = await erase.mutateAsync({ path, body: { reason: "asked in the console" } });
                if (id) onJob(id);
                go(to("/players"));
              }}
            >
              Everything that is known of this person goes: profile, messages, properties of events. Totals of
              the game stay. This cannot be undone.
            </Confirm>
          </Group>
        </Section>
      )}
    </Stack>
  );
};
