import { Anchor, Group, Paper, Stack, Text, ThemeIcon } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useAny, useApi, useCan, useProject, useRead } from "../api/hooks.ts";
import type { Answer, Id } from "../api/client.ts";
import { compact, day, percent, words } from "../format.ts";
import { Chart } from "../ui/chart.tsx";
import { OneOf, useFilters } from "../ui/filters.tsx";
import { create, form } from "../ui/operations.tsx";
import { Icon } from "../ui/icons.tsx";
import { Copyable, LinkButton, Page, SecretOnce, Section, Tiles } from "../ui/page.tsx";

const EVENT = { externalUserId: "ada", eventType: "level_finished", properties: { level: 1, stars: 3 } };

const requestBy = (key: string): string =>
  `curl -s '${location.origin}/api/v1/events?wait=true' -H "X-API-Key: ${key}" -H 'Content-Type: application/json' -d '${JSON.stringify(EVENT)}'`;

const CLIENT = `import { Client } from "@colyseus/sdk";

const client = new Client("${location.origin}");
// Your backend asks POST /api/v1/auth/ws-token with the key; the key stays there.
client.auth.token = await tokenFromYourBackend();
const room = await client.joinOrCreate("player", {});
room.onMessage("*", (name, message) => console.log(name, message.data));`;

/** Whether there is one, which is asked again and again. */
const useHas = (id: Id, given: object = { query: { limit: 1 } }): boolean => {
  const isAllowed = useCan()(id);
  const { data = [] } = useAny(id, given, { refetchInterval: 3_000, enabled: isAllowed });
  return (data.data ?? data).length > 0;
};

/** Each connected player has a room of this kind. */
const PLAYING = { kind: "player", limit: 1 } as const;

/** The way from nothing to a rule that runs: each step turns green by itself. */
export const Start = () => {
  const project = useProject();
  const keyPath = { projectId: project.sandboxOf ?? project.id };
  const hasKey = useHas("listApiKeys", { path: keyPath });
  const hasEvent = useHas("listEvents");
  const hasRule = useHas("listRules");
  const isWatched = useHas("listRooms", { query: PLAYING });
  const hasWebhook = useHas("listWebhooks");
  const [secret, setSecret] = useState<string>();
  const isSandbox = project.sandboxOf != null;
  return (
    <Page
      title="Get started"
      about={
        <>
          Five steps from nothing to a game that rewards its players. The{" "}
          <Anchor href="/docs" target="_blank" size="sm" underline="always">
            API reference
          </Anchor>{" "}
          has every operation.
        </>
      }
    >
      <Step number={1} title="Make an API key" isDone={hasKey}>
        Your game's backend sends it with every request. {isSandbox ? "A test key" : "A live key"} is for what
        you look at now; the badge beside the project's name leads to the other side.
        {secret && <SecretOnce title="Your key" value={secret} />}
        {create("createApiKey", "Make a key", {
          path: keyPath,
          first: ["name", "environment"],
          initial: { name: "My first key", environment: isSandbox ? "test" : "live" },
          done: "",
          onDone: (answer) => setSecret(answer.key),
        })}
      </Step>
      <Step number={2} title="Send an event" isDone={hasEvent}>
        Paste this into a terminal. The event shows up under Live events at once.
        <Copyable value={requestBy(secret ?? "$KEY")} />
        {form("trackEvent", "Or send one from here", {
          title: "Send an event",
          initial: EVENT,
          first: Object.keys(EVENT),
          submit: "Send",
        })}
      </Step>
      <Step number={3} title="Write a rule" isDone={hasRule}>
        A rule turns events into XP, currencies, badges and more.
        <LinkButton to="/rules">To the rules</LinkButton>
      </Step>
      <Step number={4} title="Watch it live in a game" isDone={isWatched}>
        The SDK joins rooms that show every change while players play. This step is done while a player is
        connected.
        <Copyable value={CLIENT} />
      </Step>
      <Step number={5} title="Tell your own systems" isDone={hasWebhook}>
        A webhook tells your backend of level-ups, badges and more as they happen.
        <LinkButton to="/webhooks">To the webhooks</LinkButton>
      </Step>
    </Page>
  );
};

type StepProps = { number: number; title: string; isDone?: boolean; children: ReactNode };

const Step = ({ number, title, isDone = false, children }: StepProps) => (
  <Paper withBorder p="md">
    <Group align="flex-start" wrap="nowrap">
      <ThemeIcon
        color={isDone ? "teal" : "gray"}
        variant={isDone ? "filled" : "light"}
        radius="xl"
        role="img"
        aria-label={isDone ? "Done" : `Step ${number}`}
      >
        {isDone ? <Icon name="start" size={14} /> : <Text>{number}</Text>}
      </ThemeIcon>
      <Stack gap="xs" flex={1} miw={0} fz="sm" align="flex-start">
        <Text component="h2" size="md" fw={600} m={0}>
          {title}
        </Text>
        {children}
      </Stack>
    </Group>
  </Paper>
);

type Metric = Answer<"getAnalyticsOverview">["metrics"]["events"];

const PERIODS = ["7d", "30d", "90d", "mtd"];

export const Overview = () => {
  const [{ period }, choose] = useFilters({ period: ["30d", ...PERIODS] });
  return (
    <Page
      title="Overview"
      actions={
        <OneOf
          label="Period"
          of={Object.fromEntries(PERIODS.map((one) => [one, words(one)]))}
          value={period}
          onChange={(next) => choose({ period: next })}
        />
      }
    >
      <Numbers period={period} />
    </Page>
  );
};

const MAIN = /^(activePlayers|newPlayers|returningPlayers|events|xpGranted|badgesEarned|questsCompleted)$/;
const CHARTS = { "Players a day": ["activePlayers", "newPlayers"], "Events a day": ["events"] };

const Numbers = ({ period }: { period: string | undefined }) => {
  const query = { period } as never;
  const { metrics: found, range } = useRead("getAnalyticsOverview", { query }, 60_000);
  const backlog = useApi("getBacklog", {}, { refetchInterval: 5_000 });
  const playing = useApi("listRooms", { query: PLAYING }, { refetchInterval: 5_000 });
  const { currencyGranted: _many, ...single } = found;
  const metrics: Record<string, Metric> = single;
  const labels = Array.from({ length: range.days }, (_, index) =>
    day(new Date(Date.parse(range.from) + index * 86_400_000).toISOString().slice(0, 10)),
  );
  const tilesOf = (isMain: boolean) => {
    const shown = Object.entries(metrics).filter(([name]) => MAIN.test(name) === isMain);
    return Object.fromEntries(shown.map(([name, metric]) => [words(name), toldOf(name, metric)]));
  };
  return (
    <Stack>
      <Tiles
        of={{
          ...tilesOf(true),
          "Players connected": [playing.data?.pagination.total ?? null, "now"],
          "Events that wait": [backlog.data?.events.waiting ?? null, "to be processed, now"],
        }}
      />
      {Object.entries(CHARTS).map(([title, names]) => (
        <Section title={title} key={title}>
          <Chart
            name={title}
            labels={labels}
            series={names.map((name) => ({ name: words(name), values: metrics[name]?.series ?? [] }))}
          />
        </Section>
      ))}
      <Section title="More">
        <Tiles of={tilesOf(false)} />
      </Section>
    </Stack>
  );
};

/** A number, and how it changed against the period before; shares are shown as such. */
const toldOf = (name: string, { value, changePct, previous, trend }: Metric): [string, string] => {
  const show = /rate|stickiness/i.test(name) ? percent : compact;
  const arrow = trend === "up" ? "▲" : trend === "down" ? "▼" : "";
  const change = changePct == null ? "" : `${percent(Math.abs(changePct) / 100)}, `;
  return [show(value), previous == null ? "" : `${arrow} ${change}${show(previous)} before`];
};
