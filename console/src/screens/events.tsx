import { Alert, Anchor, Badge, Code, Group, Stack, Switch, Text } from "@mantine/core";
import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { useApi, useCan, useProject, useTo } from "../api/hooks.ts";
import type { Answer, Row } from "../api/client.ts";
import { RENDER_MS, useRoom } from "../api/rooms.ts";
import { count, nameOf, number, time, words } from "../format.ts";
import { act, ask, form } from "../ui/operations.tsx";
import { describe, Effect } from "../ui/effects.tsx";
import { OneOf, useFilters, useListFilters } from "../ui/filters.tsx";
import { LiveTable } from "../ui/live.tsx";
import { Empty, ErrorNote, Hint, Json, JsonLine, Live, Loaded, Page, Section, When } from "../ui/page.tsx";
import { List } from "../ui/table.tsx";
import { type Columns, Facts } from "../ui/cells.tsx";

type Event = Row<"listEvents">;

/** Rows kept on the screen. */
const KEPT = 500;

const VIEWS = { live: "Live", list: "History" };

export const Events = () => {
  const [{ view }, choose] = useFilters({ view: Object.keys(VIEWS) });
  return (
    <Page
      title="Live events"
      about="What the game sends, as it is processed. Open an event to see which rules fired, and why."
      actions={
        <>
          {form("trackEvent", "Send an event", {
            first: ["externalUserId", "eventType", "properties"],
            submit: "Send",
          })}
          <OneOf label="View" of={VIEWS} value={view} onChange={(next) => choose({ view: next })} />
        </>
      }
    >
      {view === "list" ? <History /> : <Stream />}
    </Page>
  );
};

const FILTERS = ["eventType", "playerId", "status"];

type Waiting = { rows: Event[]; skipped: number };

const Stream = () => {
  const [filters, , bar] = useListFilters("listEvents", FILTERS);
  const [isPaused, setPaused] = useState(false);
  const waiting = useRef<Waiting>({ rows: [], skipped: 0 });
  const asked = Object.fromEntries(FILTERS.flatMap((name) => (filters[name] ? [[name, filters[name]]] : [])));
  // People know players by the game's own ids.
  const { playerId: who } = asked;
  if (who && !/^ext:|^[\da-f-]{36}$/.test(who)) asked["playerId"] = `ext:${who}`;
  const key = JSON.stringify(asked);
  const recent = useApi("listEvents", { query: { limit: 50, include: "effects", ...asked } as never });
  const options = asked["eventType"] ? { ...asked, eventType: asked["eventType"].split(",") } : asked;
  const watched = useRoom("events", options, (room) => {
    // The room has no memory: what came before it was joined is in the list.
    void recent.refetch();
    room.onMessage("events", ({ data }: { data: { events: Event[]; skipped: number } }) => {
      const { rows, skipped } = waiting.current;
      // A paused screen remembers no more than it will show.
      waiting.current = { rows: [...rows, ...data.events].slice(-KEPT), skipped: skipped + data.skipped };
    });
  });
  return (
    <Stack gap="xs">
      <Group align="flex-end" gap="xs">
        {bar}
        <Switch
          label="Pause"
          checked={isPaused}
          onChange={(event) => setPaused(event.currentTarget.checked)}
        />
        <span style={{ marginLeft: "auto" }}>
          <Live {...watched} />
        </span>
      </Group>
      {recent.error ? (
        <ErrorNote error={recent.error} />
      ) : (
        <Flow
          key={key}
          waiting={waiting}
          recent={recent.data?.data ?? []}
          isPaused={isPaused}
          isNarrowed={key !== "{}"}
        />
      )}
    </Stack>
  );
};

type FlowProps = { waiting: RefObject<Waiting>; recent: Event[]; isPaused: boolean; isNarrowed: boolean };

/** The events themselves, newest first; they stand still while one reads further down. */
const Flow = ({ waiting, recent, isPaused, isNarrowed }: FlowProps) => {
  const [rows, setRows] = useState<Event[]>([]);
  const [skipped, setSkipped] = useState(0);
  const [isTop, setTop] = useState(true);
  const to = useTo();
  const [, goTo] = useLocation();
  useEffect(() => {
    waiting.current = { rows: [], skipped: 0 };
  }, [waiting]);
  useEffect(() => {
    if (isPaused || !isTop) return;
    const timer = setInterval(() => {
      const { rows: news, skipped: more } = waiting.current;
      if (news.length === 0 && more === 0) return;
      waiting.current = { rows: [], skipped: 0 };
      setRows((before) => [...news.toReversed(), ...before].slice(0, KEPT));
      if (more > 0) setSkipped((before) => before + more);
    }, RENDER_MS);
    return () => clearInterval(timer);
  }, [waiting, isPaused, isTop]);
  const seen = new Set(rows.map(({ id }) => id));
  const shown = [...rows, ...recent.filter(({ id }) => !seen.has(id))].slice(0, KEPT);
  const open = useCallback(({ id }: Event) => goTo(to(`/events/${id}`)), [goTo]);
  if (shown.length === 0)
    return (
      <Empty title={isNarrowed ? "No such events yet" : "No events yet"}>
        They appear here within a second of being sent.
      </Empty>
    );
  return (
    <>
      {skipped > 0 && (
        <Hint size="xs">
          {`${count(skipped, "events")} came too fast to be shown; the history has them.`}
        </Hint>
      )}
      <LiveTable name="Events" rows={shown} columns={COLUMNS} wide={WIDE} onRow={open} onTop={setTop} />
    </>
  );
};

/** How many effects of each kind an event had. */
const summaryOf = ({ effectCounts = {} }: Event): string =>
  Object.entries(effectCounts)
    .map(([type, times]) => `${describe(type, {})}${times > 1 ? ` ×${times}` : ""}`)
    .join(", ");

const COLUMNS: Columns<Event> = {
  Time: ({ receivedAt }) => time(receivedAt),
  Event: "eventType",
  Player: nameOf,
  Status: "status",
  Effects: summaryOf,
  Properties: ({ properties }) => <span className="mono">{JSON.stringify(properties)}</span>,
};
const WIDE = ["Effects", "Properties"];

const History = () => (
  <>
    <List
      id="listEvents"
      filters={["eventType", "externalUserId", "status", "source", "from", "to"]}
      to={({ id }) => `/events/${id}`}
      columns={{
        Received: "receivedAt",
        Event: "eventType",
        Player: nameOf,
        Status: "status",
        Properties: ({ properties }) => <JsonLine value={properties} />,
      }}
      wide={["Properties"]}
    />
    <Group mt="md">
      {form("revertEvents", "Revert many events", {
        about: "Takes back what the events have given. Begin with a dry run, which tells what would happen.",
        submit: "Revert",
        done: "Reverting",
      })}
    </Group>
  </>
);

export const EventPage = ({ id }: { id: string }) => {
  const path = { eventId: id };
  const event = useApi("getEvent", { path });
  const can = useCan();
  const { data } = event;
  return (
    <Page
      title={data?.eventType ?? "Event"}
      parent={["Live events", "/events"]}
      actions={[
        data?.status === "FAILED" && act("retryEvent", "Try again", { path, done: "It is processed again" }),
        data?.status === "PROCESSED" &&
          ask("revertEvent", "Revert", {
            path,
            body: { reason: "reverted in the console" } as never,
            title: "Revert this event?",
            text: "What it has given is taken back, as far as the player still has it. The event stays, as reverted.",
          }),
      ]}
    >
      <Loaded query={event}>{(found) => <Details event={found} />}</Loaded>
      {can("getEventTrace") && <Why path={path} />}
    </Page>
  );
};

const Why = ({ path }: { path: { eventId: string } }) => {
  const trace = useApi("getEventTrace", { path });
  return (
    <Section title="Why">
      {trace.error?.status === 404 ? (
        <Empty title="No trace is kept of this event">
          {`A part of the events is traced, for some days: see “Rules of the game” in the project's settings.`}
        </Empty>
      ) : (
        <Loaded query={trace}>{(found) => <Trace trace={found} />}</Loaded>
      )}
    </Section>
  );
};

const Details = ({ event }: { event: Answer<"getEvent"> }) => {
  const to = useTo();
  const project = useProject();
  return (
    <Stack>
      <Facts
        of={event}
        show={{
          Status: "status",
          Player: ({ externalUserId }) => (
            <Anchor component={Link} href={to(`/players/ext:${externalUserId}`)} size="sm">
              {externalUserId}
            </Anchor>
          ),
          Happened: ({ timestamp }) => <When at={timestamp} />,
          Received: "receivedAt",
          Source: "source",
          "Idempotency key": "idempotencyKey",
          ID: ({ id }) => <span className="mono">{id}</span>,
          Project: () => <span className="mono">{project.id}</span>,
        }}
      />
      {event.error && <Alert color="red" title={event.error} />}
      <Section title="Properties">
        <Json value={event.properties} />
      </Section>
      <Section title="Effects">
        {event.effects.length === 0 && <Hint>None</Hint>}
        {event.effects.map(({ type, data }, index) => (
          <Group key={index} gap="xs">
            <Effect type={type} data={data} />
            <Hint size="xs">{type}</Hint>
          </Group>
        ))}
        {event.effectsLeftOut ? <Text size="xs">{`and ${number(event.effectsLeftOut)} more`}</Text> : null}
      </Section>
    </Stack>
  );
};

type Node = {
  path: string;
  type: string;
  op?: string;
  expected?: unknown;
  actual?: unknown;
  pass: boolean;
  skipped?: boolean;
  children?: Node[];
};

/** One condition, whether it held, and what it saw. */
const Condition = ({ node, of, depth = 0 }: { node: Node; of?: object | undefined; depth?: number }) => {
  const said: any = (node.path.match(/\w+/g) ?? []).reduce((part: any, key) => part?.[key], of);
  return (
    <div style={{ marginLeft: depth * 18 }}>
      <Text c={node.skipped ? "dimmed" : undefined}>
        {node.skipped ? "– " : node.pass ? "✓ " : "✗ "}
        {words(node.type)} {said?.path ?? said?.field ?? said?.key} {node.op ? words(node.op) : ""}{" "}
        {node.expected !== undefined && <Code>{JSON.stringify(node.expected)}</Code>}
        {node.actual !== undefined && ", was "}
        {node.actual !== undefined && <Code>{JSON.stringify(node.actual)}</Code>}
      </Text>
      {node.children?.map((child) => (
        <Condition key={child.path} node={child} of={of} depth={depth + 1} />
      ))}
    </div>
  );
};

export const Trace = ({ trace, of }: { trace: any; of?: object }) => {
  const rules = trace.rules as any[];
  const order = rules.toSorted((a, b) => Number(b.fired) - Number(a.fired));
  return (
    <Stack>
      {rules.length === 0 && <Hint>No rule listens to this event.</Hint>}
      {order.map((rule) => (
        <div key={`${rule.ruleId} ${rule.version}`}>
          <Group gap="xs">
            <Text fw={600}>{rule.ruleKey}</Text>
            <Badge color={rule.fired ? "teal" : "gray"}>{rule.fired ? "Fired" : words(rule.reason)}</Badge>
            {rule.shadow && <Badge color="violet">Shadow</Badge>}
            {rule.detail && <Hint size="xs">{rule.detail}</Hint>}
          </Group>
          {rule.conditions && <Condition node={rule.conditions} of={of} />}
          {rule.effects.map((effect: any, index: number) => (
            <Text key={index} ml="md">
              → <Effect type={effect.type} data={effect.data} />
            </Text>
          ))}
        </div>
      ))}
      {trace.quests?.length > 0 && (
        <div>
          <Text fw={600}>Quests</Text>
          {trace.quests.map((quest: any) => (
            <Text key={quest.questKey}>{`${quest.questKey}: ${words(quest.reason)}`}</Text>
          ))}
        </div>
      )}
      {trace.leaderboards?.map(({ key, before, after }: any) => (
        <Text key={key}>{`Leaderboard ${key}: ${number(before)} → ${number(after)}`}</Text>
      ))}
      {trace.derived?.map((one: any, index: number) => (
        <Section key={index} title={`Event that followed: ${one.eventType}`}>
          <Trace trace={one} />
        </Section>
      ))}
      {trace.warnings?.map((warning: string) => (
        <Alert color="yellow" key={warning}>
          {warning}
        </Alert>
      ))}
    </Stack>
  );
};
