import { Alert, Anchor, Badge, Code, Group, Stack, Switch, Text } from "@mantine/core";
import { useCallback, useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { useApi, useCan, useGo, useProject, useRead, useTo } from "../api/hooks.ts";
import type { Answer, Row } from "../api/client.ts";
import { RENDER_MS, useRoom } from "../api/rooms.ts";
import { count, nameOf, number, time, words } from "../format.ts";
import { act, ask, form } from "../ui/operations.tsx";
import { type Filters, OneOf, useFilters, useListFilters } from "../ui/filters.tsx";
import { LiveTable } from "../ui/live.tsx";
import { Empty, Hint, Json, JsonLine, Live, Loaded, Page, Section, When } from "../ui/page.tsx";
import { List, type ListProps } from "../ui/table.tsx";
import { type Columns, Facts, describe, Effects } from "../ui/cells.tsx";

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

const Stream = () => {
  const [filters, , bar] = useListFilters("listEvents", FILTERS);
  const [isPaused, setPaused] = useState(false);
  const asked = Object.fromEntries(FILTERS.flatMap((name) => (filters[name] ? [[name, filters[name]]] : [])));
  // People know players by the game's own ids.
  const { playerId: who } = asked;
  if (who && !/^ext:|^[\da-f-]{36}$/.test(who)) asked["playerId"] = `ext:${who}`;
  return (
    <Stack gap="xs">
      <Group align="flex-end" gap="xs">
        {bar}
        <Switch
          label="Pause"
          checked={isPaused}
          onChange={(event) => setPaused(event.currentTarget.checked)}
        />
      </Group>
      <Flow key={JSON.stringify(asked)} asked={asked} isPaused={isPaused} />
    </Stack>
  );
};

const NOTHING: { rows: Event[]; skipped: number } = { rows: [], skipped: 0 };

/** The events themselves, newest first; they stand still while one reads further down. */
const Flow = ({ asked, isPaused }: { asked: Filters; isPaused: boolean }) => {
  const waiting = useRef(NOTHING);
  const [{ rows, skipped }, setShown] = useState(NOTHING);
  const [isTop, setTop] = useState(true);
  const go = useGo();
  const recent = useApi("listEvents", { query: { limit: 50, include: "effects", ...asked } as never });
  const options = asked["eventType"] ? { ...asked, eventType: asked["eventType"].split(",") } : asked;
  const watched = useRoom("events", options, (room) => {
    // The room has no memory: what came before it was joined is in the list.
    void recent.refetch();
    room.onMessage("events", ({ data }: { data: { events: Event[]; skipped: number } }) => {
      const before = waiting.current;
      // A paused screen remembers no more than it will show.
      const news = [...before.rows, ...data.events].slice(-KEPT);
      waiting.current = { rows: news, skipped: before.skipped + data.skipped };
    });
  });
  useEffect(() => {
    if (isPaused || !isTop) return;
    const timer = setInterval(() => {
      const news = waiting.current;
      if (news === NOTHING) return;
      waiting.current = NOTHING;
      setShown((before) => ({
        rows: [...news.rows.toReversed(), ...before.rows].slice(0, KEPT),
        skipped: before.skipped + news.skipped,
      }));
    }, 2 * RENDER_MS);
    return () => clearInterval(timer);
  }, [isPaused, isTop]);
  const open = useCallback(({ id }: Event) => go(`/events/${id}`), []);
  return (
    <>
      <Group gap="xs">
        <Live {...watched} />
        {skipped > 0 && (
          <Hint size="xs">
            {`${count(skipped, "events")} came too fast to be shown; the history has them.`}
          </Hint>
        )}
      </Group>
      <Loaded query={recent}>
        {({ data }) => {
          const seen = new Set(rows.map(({ id }) => id));
          const all = [...rows, ...data.filter(({ id }) => !seen.has(id))].slice(0, KEPT);
          return all.length > 0 ? (
            <LiveTable name="Events" rows={all} columns={COLUMNS} wide={WIDE} onRow={open} onTop={setTop} />
          ) : (
            <Empty title={Object.keys(asked).length > 0 ? "No such events yet" : "No events yet"}>
              They appear here within a second of being sent.
            </Empty>
          );
        }}
      </Loaded>
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

/** Events that are kept; those of one player do not name the player. */
export const EventList = (props: Pick<ListProps<"listEvents">, "query" | "filters" | "beside">) => (
  <List
    {...props}
    id="listEvents"
    to={({ id }) => `/events/${id}`}
    columns={{
      Received: "receivedAt",
      Event: "eventType",
      ...(!props.query && { Player: nameOf }),
      Status: "status",
      Properties: ({ properties }) => <JsonLine value={properties} />,
    }}
    wide={["Properties"]}
  />
);

const History = () => (
  <EventList
    filters={["eventType", "externalUserId", "status", "source", "from", "to"]}
    beside={form("revertEvents", "Revert many events", {
      about: "Takes back what the events have given. Begin with a dry run, which tells what would happen.",
      submit: "Revert",
      job: ["Many events", reverted],
    })}
  />
);

const reverted = ({ dryRun, matched, players, revertible, reverted: done }: any) =>
  `${count(matched, "events")} of ${count(players, "players")} fit; ${number(done ?? revertible)} ${dryRun ? "could be" : "were"} reverted.`;

export const EventPage = ({ id }: { id: string }) => {
  const path = { eventId: id };
  const event = useRead("getEvent", { path });
  const { eventType, status, error, properties, effects, effectsLeftOut } = event;
  const to = useTo();
  const project = useProject();
  const can = useCan();
  return (
    <Page
      title={eventType}
      parent={["Live events", "/events"]}
      actions={[
        status === "FAILED" && act("retryEvent", "Try again", { path, done: "It is processed again" }),
        status === "PROCESSED" &&
          ask("revertEvent", "Revert", {
            path,
            body: { reason: "reverted in the console" } as never,
            title: "Revert this event?",
            text: "What it has given is taken back, as far as the player still has it. The event stays, as reverted.",
          }),
      ]}
    >
      <Facts
        of={event}
        show={{
          Status: "status",
          Player: ({ playerId, externalUserId }) => (
            <Anchor component={Link} href={to(`/players/${playerId}`)} size="sm">
              {externalUserId}
            </Anchor>
          ),
          Happened: ({ timestamp }) => <When at={timestamp} />,
          Received: "receivedAt",
          Source: "source",
          "Idempotency key": "idempotencyKey",
          ID: () => <span className="mono">{event.id}</span>,
          Project: () => <span className="mono">{project.id}</span>,
        }}
      />
      {error && <Alert color="red" title={error} />}
      <Section title="Properties">
        <Json value={properties} />
      </Section>
      <Section title="Effects">
        {effects.length === 0 && <Hint>None</Hint>}
        <Effects of={effects} />
        {effectsLeftOut ? <Text size="xs">{`and ${number(effectsLeftOut)} more`}</Text> : null}
      </Section>
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

type Traced = Answer<"getEventTrace">;
type Node = NonNullable<Traced["rules"][number]["conditions"]>;

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

export const Trace = ({ trace, of }: { trace: Traced; of?: object }) => {
  const order = trace.rules.toSorted((a, b) => Number(b.fired) - Number(a.fired));
  return (
    <Stack>
      {order.length === 0 && <Hint>No rule listens to this event.</Hint>}
      {order.map((rule) => (
        <div key={`${rule.ruleId} ${rule.version}`}>
          <Group gap="xs">
            <Text fw={600}>{rule.ruleKey}</Text>
            <Badge color={rule.fired ? "teal" : "gray"}>{rule.fired ? "Fired" : words(rule.reason)}</Badge>
            {rule.shadow && <Badge color="violet">Shadow</Badge>}
            {rule.detail && <Hint size="xs">{rule.detail}</Hint>}
          </Group>
          {rule.conditions && <Condition node={rule.conditions} of={of} />}
          <Effects of={rule.effects} />
        </div>
      ))}
      {trace.quests?.map(({ questKey, reason }) => (
        <Text key={questKey}>{`Quest ${questKey}: ${words(reason)}`}</Text>
      ))}
      {trace.leaderboards.map(({ key, before, after }) => (
        <Text key={key}>{`Leaderboard ${key}: ${number(before)} → ${number(after)}`}</Text>
      ))}
      {trace.derived.map((one, index) => (
        <Section key={index} title={`Event that followed: ${one.eventType}`}>
          <Trace trace={one} />
        </Section>
      ))}
      {trace.warnings.map((warning) => (
        <Alert color="yellow" key={warning}>
          {warning}
        </Alert>
      ))}
    </Stack>
  );
};
