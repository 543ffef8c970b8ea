import {
  Anchor,
  Button,
  Group,
  Paper,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Text,
  ThemeIcon,
} from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import { useProject, useTo } from "../app/project.ts";
import type { Answer } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { compact, day, number, percent, words } from "../format.ts";
import { Chart } from "../ui/chart.tsx";
import { useFilters } from "../ui/filters.ts";
import { FormButton } from "../ui/form.tsx";
import { Icon } from "../ui/icons.tsx";
import { Loaded, Page } from "../ui/page.tsx";
import { Copyable, SecretOnce, Section, Tile } from "../ui/small.tsx";

type Step = { title: string; isDone: boolean; children: React.ReactNode };

/** The way from nothing to a rule that runs: each step turns green by itself. */
export const Start = () => {
  const project = useProject();
  const to = useTo();
  const can = useCan();
  const every = { refetchInterval: 3_000 };
  const isOpen = (id: Parameters<typeof can>[0]) => ({ ...every, enabled: can(id) });
  const keyProject = project.sandboxOf ?? project.id;
  const keys = useApi("listApiKeys", { path: { projectId: keyProject } }, isOpen("listApiKeys"));
  const events = useApi("listEvents", { query: { limit: 1 } }, every);
  const rules = useApi("listRules", { query: { limit: 1 } }, every);
  const webhooks = useApi("listWebhooks", { query: { limit: 1 } }, isOpen("listWebhooks"));
  const [secret, setSecret] = useState<string>();
  const has = (query: { data: { data: unknown[] } | unknown[] | undefined }) =>
    (Array.isArray(query.data) ? query.data : (query.data?.data ?? [])).length > 0;
  const key = secret ?? "$KEY";
  const steps: Step[] = [
    {
      title: "Make an API key",
      isDone: has(keys),
      children: (
        <>
          <Text size="sm">
            Your game's backend sends it with every request. A key of the sandbox is for trying things.
          </Text>
          {secret && <SecretOnce title="Your key" value={secret} />}
          {can("createApiKey") && (
            <FormButton
              id="createApiKey"
              path={{ projectId: keyProject }}
              label="Make a key"
              size="xs"
              first={["name", "environment"]}
              initial={{ name: "My first key" }}
              done=""
              onDone={(answer) => setSecret(answer.key)}
            />
          )}
        </>
      ),
    },
    {
      title: "Send an event",
      isDone: has(events),
      children: (
        <>
          <Text size="sm">Paste this into a terminal. The event shows up under Live events at once.</Text>
          <Copyable
            value={`curl -s '${location.origin}/api/v1/events?wait=true' -H "X-API-Key: ${key}" -H 'Content-Type: application/json' -d '{"externalUserId":"ada","eventType":"level_finished","properties":{"level":1,"stars":3}}'`}
          />
          {can("trackEvent") && (
            <FormButton
              id="trackEvent"
              label="Or send one from here"
              title="Send an event"
              size="xs"
              variant="default"
              initial={{
                externalUserId: "ada",
                eventType: "level_finished",
                properties: { level: 1, stars: 3 },
              }}
              first={["externalUserId", "eventType", "properties"]}
              submit="Send"
              done="Sent"
            />
          )}
        </>
      ),
    },
    {
      title: "Write a rule",
      isDone: has(rules),
      children: (
        <>
          <Text size="sm">A rule turns events into XP, currencies, badges and more.</Text>
          <Button component={Link} href={to("/rules")} size="xs" variant="default">
            To the rules
          </Button>
        </>
      ),
    },
    {
      title: "Watch it live in a game",
      isDone: false,
      children: (
        <>
          <Text size="sm">The SDK joins rooms that show every change while players play.</Text>
          <Copyable
            value={`import { Client } from "@colyseus/sdk";\n\nconst client = new Client("${location.origin}");\n// Your backend asks POST /api/v1/auth/ws-token with the key; the key stays there.\nclient.auth.token = await tokenFromYourBackend();\nconst room = await client.joinOrCreate("player", {});\nroom.onMessage("*", (name, message) => console.log(name, message.data));`}
          />
        </>
      ),
    },
    {
      title: "Tell your own systems",
      isDone: has(webhooks),
      children: (
        <>
          <Text size="sm">A webhook tells your backend of level-ups, badges and more as they happen.</Text>
          <Button component={Link} href={to("/webhooks")} size="xs" variant="default">
            To the webhooks
          </Button>
        </>
      ),
    },
  ];
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
      <Stack>
        {steps.map(({ title, isDone, children }, index) => (
          <Paper withBorder p="md" key={title}>
            <Group align="flex-start" wrap="nowrap">
              <ThemeIcon
                color={isDone ? "teal" : "gray"}
                variant={isDone ? "filled" : "light"}
                radius="xl"
                role="img"
                aria-label={isDone ? "Done" : `Step ${index + 1}`}
              >
                {isDone ? <Icon name="start" size={14} /> : <Text size="sm">{index + 1}</Text>}
              </ThemeIcon>
              <Stack gap="xs" style={{ flex: 1, minWidth: 0 }} align="stretch">
                <Text component="h2" fw={600} m={0}>
                  {title}
                </Text>
                <Stack gap="xs" align="flex-start">
                  {children}
                </Stack>
              </Stack>
            </Group>
          </Paper>
        ))}
      </Stack>
    </Page>
  );
};

type Metric = {
  value: number | null;
  previous?: number | null;
  changePct?: number | null;
  trend?: string | null;
  series?: number[];
};

const PERIODS = { "7d": "7 days", "30d": "30 days", "90d": "90 days", mtd: "This month" };

export const Overview = () => {
  const [filters, choose] = useFilters({ period: "30d" });
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
        <SegmentedControl
          data={Object.entries(PERIODS).map(([value, label]) => ({ value, label }))}
          value={filters["period"] ?? "30d"}
          onChange={(period) => choose({ period })}
          aria-label="Period"
          size="xs"
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

/** Shares are shown as such. */
const shown = (name: string) => (/rate|stickiness/i.test(name) ? percent : compact);

const Numbers = ({
  overview,
  waiting,
}: {
  overview: Answer<"getAnalyticsOverview">;
  waiting: number | undefined;
}) => {
  const metrics = overview.metrics as unknown as Record<string, Metric>;
  const { range } = overview;
  const dates = Array.from({ length: range.days }, (_, index) => {
    const at = new Date(`${range.from}T00:00:00Z`);
    at.setUTCDate(at.getUTCDate() + index);
    return day(at.toISOString().slice(0, 10));
  });
  const first = TILES.filter((name) => name in metrics);
  const rest = Object.keys(metrics).filter((name) => !first.includes(name));
  const lines = ["activePlayers", "newPlayers"].filter((name) => metrics[name]?.series);
  return (
    <Stack>
      <SimpleGrid cols={{ base: 2, md: 4 }}>
        {first.map((name) => (
          <Tile
            key={name}
            name={words(name)}
            value={shown(name)(metrics[name]!.value)}
            note={<Change metric={metrics[name]!} show={shown(name)} />}
          />
        ))}
        <Tile name="Events that wait" value={number(waiting)} note="to be processed, now" />
      </SimpleGrid>
      {lines.length > 0 && (
        <Section title="Players a day">
          <Chart
            name="Players a day"
            labels={dates}
            series={lines.map((name) => ({ name: words(name), values: metrics[name]!.series! }))}
          />
        </Section>
      )}
      {metrics["events"]?.series && (
        <Section title="Events a day">
          <Chart
            name="Events a day"
            labels={dates}
            series={[{ name: "Events", values: metrics["events"].series }]}
            height={200}
          />
        </Section>
      )}
      <Section title="More">
        <SimpleGrid cols={{ base: 2, md: 4 }}>
          {rest.map((name) => (
            <Tile
              key={name}
              name={words(name)}
              value={shown(name)(metrics[name]!.value)}
              note={<Change metric={metrics[name]!} show={shown(name)} />}
            />
          ))}
        </SimpleGrid>
      </Section>
    </Stack>
  );
};

/** How it changed against the period before. */
const Change = ({
  metric: { changePct, previous, trend },
  show,
}: {
  metric: Metric;
  show: typeof compact;
}) => {
  if (previous == null) return null;
  const arrow = trend === "up" ? "▲" : trend === "down" ? "▼" : "";
  const change = changePct == null ? "" : `${percent(Math.abs(changePct) / 100)}, `;
  return <>{`${arrow} ${change}${show(previous)} before`}</>;
};
