import { Anchor, Group, Paper, SimpleGrid, Stack, Text, ThemeIcon } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useApi, useCan, useProject } from "../api/hooks.ts";
import type { Answer } from "../api/client.ts";
import { compact, day, percent, words } from "../format.ts";
import { Chart } from "../ui/chart.tsx";
import { OneOf, useFilters } from "../ui/filters.tsx";
import { create, form } from "../ui/operations.tsx";
import { Icon } from "../ui/icons.tsx";
import { Copyable, LinkButton, Loaded, Page, SecretOnce, Section, Tile } from "../ui/page.tsx";

const EVENT = { externalUserId: "ada", eventType: "level_finished", properties: { level: 1, stars: 3 } };

const requestBy = (key: string): string =>
  `curl -s '${location.origin}/api/v1/events?wait=true' -H "X-API-Key: ${key}" -H 'Content-Type: application/json' -d '${JSON.stringify(EVENT)}'`;

const CLIENT = `import { Client } from "@colyseus/sdk";

const client = new Client("${location.origin}");
// Your backend asks POST /api/v1/auth/ws-token with the key; the key stays there.
client.auth.token = await tokenFromYourBackend();
const room = await client.joinOrCreate("player", {});
room.onMessage("*", (name, message) => console.log(name, message.data));`;

/** The way from nothing to a rule that runs: each step turns green by itself. */
export const Start = () => {
  const project = useProject();
  const can = useCan();
  const every = { refetchInterval: 3_000 };
  const keyProject = { projectId: project.sandboxOf ?? project.id };
  const keys = useApi("listApiKeys", { path: keyProject }, { ...every, enabled: can("listApiKeys") });
  const one = { query: { limit: 1 } };
  const events = useApi("listEvents", one, every);
  const rules = useApi("listRules", one, every);
  const webhooks = useApi("listWebhooks", one, { ...every, enabled: can("listWebhooks") });
  const [secret, setSecret] = useState<string>();
  const has = (rows: unknown[] | undefined) => rows !== undefined && rows.length > 0;
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
      <Step
        number={1}
        title="Make an API key"
        about="Your game's backend sends it with every request. A key of the sandbox is for trying things."
        isDone={has(keys.data)}
      >
        {secret && <SecretOnce title="Your key" value={secret} />}
        {create("createApiKey", "Make a key", {
          path: keyProject,
          first: ["name", "environment"],
          initial: { name: "My first key" },
          done: "",
          onDone: (answer) => setSecret(answer.key),
        })}
      </Step>
      <Step
        number={2}
        title="Send an event"
        about="Paste this into a terminal. The event shows up under Live events at once."
        isDone={has(events.data?.data)}
      >
        <Copyable value={requestBy(secret ?? "$KEY")} />
        {form("trackEvent", "Or send one from here", {
          title: "Send an event",
          initial: EVENT,
          first: Object.keys(EVENT),
          submit: "Send",
        })}
      </Step>
      <Step
        number={3}
        title="Write a rule"
        about="A rule turns events into XP, currencies, badges and more."
        isDone={has(rules.data?.data)}
      >
        <LinkButton to="/rules">To the rules</LinkButton>
      </Step>
      <Step
        number={4}
        title="Watch it live in a game"
        about="The SDK joins rooms that show every change while players play."
      >
        <Copyable value={CLIENT} />
      </Step>
      <Step
        number={5}
        title="Tell your own systems"
        about="A webhook tells your backend of level-ups, badges and more as they happen."
        isDone={has(webhooks.data?.data)}
      >
        <LinkButton to="/webhooks">To the webhooks</LinkButton>
      </Step>
    </Page>
  );
};

type StepProps = { number: number; title: string; about: string; isDone?: boolean; children: ReactNode };

const Step = ({ number, title, about, isDone = false, children }: StepProps) => (
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
      <Stack gap="xs" style={{ flex: 1, minWidth: 0 }} align="flex-start">
        <Text component="h2" size="md" fw={600} m={0}>
          {title}
        </Text>
        <Text>{about}</Text>
        {children}
      </Stack>
    </Group>
  </Paper>
);

type Metric = {
  value: number | null;
  previous?: number | null;
  changePct?: number | null;
  trend?: string | null;
  series?: number[];
};

const PERIODS = ["7d", "30d", "90d", "mtd"];

export const Overview = () => {
  const [filters, choose] = useFilters({ period: ["30d", ...PERIODS] });
  const overview = useApi(
    "getAnalyticsOverview",
    { query: { period: filters["period"] } as never },
    { refetchInterval: 60_000 },
  );
  const backlog = useApi("getBacklog", {}, { refetchInterval: 5_000 });
  return (
    <Page
      title="Overview"
      actions={
        <OneOf
          label="Period"
          of={Object.fromEntries(PERIODS.map((one) => [one, words(one)]))}
          value={filters["period"]}
          onChange={(period) => choose({ period })}
        />
      }
    >
      <Loaded query={overview}>
        {(data) => <Numbers overview={data} waiting={backlog.data?.events.waiting} />}
      </Loaded>
    </Page>
  );
};

const TILES = [
  "activePlayers",
  "newPlayers",
  "returningPlayers",
  "events",
  "xpGranted",
  "badgesEarned",
  "questsCompleted",
];

type NumbersProps = { overview: Answer<"getAnalyticsOverview">; waiting: number | undefined };

const Numbers = ({ overview, waiting }: NumbersProps) => {
  const metrics = overview.metrics as unknown as Record<string, Metric>;
  const { range } = overview;
  const labels = Array.from({ length: range.days }, (_, index) => {
    const at = new Date(`${range.from}T00:00:00Z`);
    at.setUTCDate(at.getUTCDate() + index);
    return day(at.toISOString().slice(0, 10));
  });
  const first = TILES.filter((name) => name in metrics);
  const rest = Object.keys(metrics).filter((name) => !first.includes(name));
  const tileOf = (name: string) => <MetricTile key={name} name={name} metric={metrics[name]!} />;
  const seriesOf = (...names: string[]) =>
    names.flatMap((name) => {
      const values = metrics[name]?.series;
      return values ? [{ name: words(name), values }] : [];
    });
  const players = seriesOf("activePlayers", "newPlayers");
  const events = seriesOf("events");
  return (
    <Stack>
      <SimpleGrid cols={{ base: 2, md: 4 }}>
        {first.map(tileOf)}
        <Tile name="Events that wait" value={waiting} note="to be processed, now" />
      </SimpleGrid>
      {players.length > 0 && (
        <Section title="Players a day">
          <Chart name="Players a day" labels={labels} series={players} />
        </Section>
      )}
      {events.length > 0 && (
        <Section title="Events a day">
          <Chart name="Events a day" labels={labels} series={events} height={200} />
        </Section>
      )}
      <Section title="More">
        <SimpleGrid cols={{ base: 2, md: 4 }}>{rest.map(tileOf)}</SimpleGrid>
      </Section>
    </Stack>
  );
};

/** A number, and how it changed against the period before; shares are shown as such. */
const MetricTile = ({ name, metric }: { name: string; metric: Metric }) => {
  const { value, changePct, previous, trend } = metric;
  const show = /rate|stickiness/i.test(name) ? percent : compact;
  const arrow = trend === "up" ? "▲" : trend === "down" ? "▼" : "";
  const change = changePct == null ? "" : `${percent(Math.abs(changePct) / 100)}, `;
  return (
    <Tile
      name={words(name)}
      value={show(value)}
      note={previous != null && `${arrow} ${change}${show(previous)} before`}
    />
  );
};
