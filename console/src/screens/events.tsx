import { Act } from "../ui/act.tsx";
import { Alert, Badge, Button, Code, Group, SegmentedControl, Stack, Switch, Text } from "@mantine/core";
import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { useProject, useTo } from "../app/project.ts";
import type { Answer, Row } from "../api/client.ts";
import { useAct, useApi } from "../api/hooks.ts";
import { RENDER_MS, useRoom } from "../api/rooms.ts";
import { useCan } from "../api/session.ts";
import { number, time, words } from "../format.ts";
import { describe, Effect } from "../ui/effects.tsx";
import { useFilters } from "../ui/filters.ts";
import { FormButton } from "../ui/form.tsx";
import { Empty, ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Facts, Json, Section, Status, When, Live } from "../ui/small.tsx";
import { LiveTable } from "../ui/live.tsx";
import { type Column, FilterBar, List } from "../ui/table.tsx";

type Event = Row<"listEvents">;

/** Rows kept on the screen. */
const KEPT = 500;

export const Events = () => {
  const [{ view }, choose] = useFilters({ view: "live" });
  const can = useCan();
  return (
    <Page
      title="Live events"
      about="What the game sends, as it is processed. Open an event to see which rules fired, and why."
      actions={
        <>
          {can("trackEvent") && (
            <FormButton
              id="trackEvent"
              label="Send an event"
              variant="default"
              first={["externalUserId", "eventType", "properties"]}
              submit="Send"
              done="Sent"
            />
          )}
          <SegmentedControl
            data={[
              { value: "live", label: "Live" },
              { value: "list", label: "History" },
            ]}
            value={view ?? "live"}
            onChange={(next) => choose({ view: next })}
            aria-label="View"
          />
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
  const [filters, choose] = useFilters();
  const [isPaused, setPaused] = useState(false);
  const waiting = useRef<Waiting>({ rows: [], skipped: 0 });
  const asked = Object.fromEntries(FILTERS.flatMap((name) => (filters[name] ? [[name, filters[name]]] : [])));
  // People know players by the game's own ids.
  const { playerId: who } = asked;
  if (who && !/^ext:|^[\da-f-]{36}$/.test(who)) asked["playerId"] = `ext:${who}`;
  const key = JSON.stringify(asked);
  const recent = useApi("listEvents", { query: { limit: 50, include: "effects", ...asked } as never });
  const options = asked["eventType"] ? { ...asked, eventType: [asked["eventType"]] } : asked;
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
        <FilterBar id="listEvents" names={FILTERS} chosen={filters} choose={choose} />
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
  const [, go] = useLocation();
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
  const open = useCallback(({ id }: Event) => go(to(`/events/${id}`)), [go]);
  if (shown.length === 0)
    return (
      <Empty title={isNarrowed ? "No such events yet" : "No events yet"}>
        They appear here within a second of being sent.
      </Empty>
    );
  return (
    <>
      {skipped > 0 && (
        <Text size="xs" c="dimmed">
          {`${number(skipped)} events came too fast to be shown; the history has them.`}
        </Text>
      )}
      <LiveTable name="Events" rows={shown} columns={COLUMNS} onRow={open} onTop={setTop} />
    </>
  );
};

const nameOf = (row: Event): string => row.displayName ?? row.externalUserId;

/** How many effects of each kind an event had. */
const summaryOf = ({ effectCounts = {} }: Event): string =>
  Object.entries(effectCounts)
    .map(([type, count]) => `${describe(type, {})}${count > 1 ? ` ×${count}` : ""}`)
    .join(", ");

const COLUMNS: Column<Event>[] = [
  { title: "Time", cell: ({ receivedAt }) => time(receivedAt) },
  { title: "Event", cell: ({ eventType }) => eventType },
  { title: "Player", cell: nameOf },
  { title: "Status", cell: ({ status }) => <Status value={status} /> },
  { title: "Effects", cell: summaryOf, isWideOnly: true },
  {
    title: "Properties",
    cell: ({ properties }) => <span className="mono">{JSON.stringify(properties)}</span>,
    isWideOnly: true,
  },
];

const History = () => {
  const to = useTo();
  const [, go] = useLocation();
  const can = useCan();
  return (
    <>
      <List
        id="listEvents"
        name="Events"
        filters={["eventType", "externalUserId", "status", "source", "from", "to"]}
        onRow={({ id }) => go(to(`/events/${id}`))}
        columns={[
          { title: "Received", cell: ({ receivedAt }) => <When at={receivedAt} /> },
          { title: "Event", cell: ({ eventType }) => eventType },
          { title: "Player", cell: nameOf },
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
          {
            title: "Properties",
            isWideOnly: true,
            cell: ({ properties }) => (
              <Text className="mono" maw={420} truncate>
                {JSON.stringify(properties)}
              </Text>
            ),
          },
        ]}
      />
      {can("revertEvents") && (
        <Group mt="md">
          <FormButton
            id="revertEvents"
            label="Revert many events"
            variant="default"
            size="xs"
            about="Takes back what the events have given. Begin with a dry run, which tells what would happen."
            submit="Revert"
            done="Reverting"
          />
        </Group>
      )}
    </>
  );
};

export const EventPage = ({ id }: { id: string }) => {
  const event = useApi("getEvent", { path: { eventId: id } });
  const to = useTo();
  const can = useCan();
  const trace = useApi("getEventTrace", { path: { eventId: id } }, { enabled: can("getEventTrace") });
  const revert = useAct("revertEvent", { done: "Reverted" });
  const data = event.data;
  return (
    <Page
      title={data?.eventType ?? "Event"}
      parent={{ title: "Live events", to: to("/events") }}
      actions={
        data && (
          <>
            {can("retryEvent") && data.status === "FAILED" && (
              <Act id="retryEvent" path={{ eventId: id }} done="It is processed again" size="sm">
                Try again
              </Act>
            )}
            {can("revertEvent") && data.status === "PROCESSED" && (
              <Confirm
                label="Revert"
                title="Revert this event?"
                size="sm"
                onConfirm={() =>
                  revert.mutateAsync({
                    path: { eventId: id },
                    body: { reason: "reverted in the console" } as never,
                  })
                }
              >
                What it has given is taken back, as far as the player still has it. The event stays, as
                reverted.
              </Confirm>
            )}
          </>
        )
      }
    >
      <Loaded query={event}>{(found) => <Details event={found} />}</Loaded>
      {can("getEventTrace") && (
        <Section title="Why">
          {trace.error?.status === 404 ? (
            <Empty title="No trace is kept of this event">
              {`A part of the events is traced, for some days: see “Rules of the game” in the project's settings.`}
            </Empty>
          ) : (
            <Loaded query={trace}>{(found) => <Trace trace={found} />}</Loaded>
          )}
        </Section>
      )}
    </Page>
  );
};

const Details = ({ event }: { event: Answer<"getEvent"> }) => {
  const to = useTo();
  const [, go] = useLocation();
  const { id } = useProject();
  return (
    <Stack>
      <Facts
        of={{
          Status: <Status value={event.status} />,
          Player: (
            <Button
              variant="subtle"
              size="compact-sm"
              px={0}
              onClick={() => go(to(`/players/ext:${event.externalUserId}`))}
            >
              {event.externalUserId}
            </Button>
          ),
          Happened: <When at={event.timestamp} />,
          Received: <When at={event.receivedAt} />,
          Source: words(event.source),
          "Idempotency key": event.idempotencyKey ?? "–",
          ID: <span className="mono">{event.id}</span>,
          Project: <span className="mono">{id}</span>,
        }}
      />
      {event.error && <Alert color="red" title={event.error} />}
      <Section title="Properties">
        <Json value={event.properties} />
      </Section>
      <Section title="Effects">
        {event.effects.length === 0 ? (
          <Text size="sm" c="dimmed">
            None
          </Text>
        ) : (
          event.effects.map(({ type, data }, index) => (
            <Group key={index} gap="xs">
              <Effect type={type} data={data} />
              <Text size="xs" c="dimmed">
                {type}
              </Text>
            </Group>
          ))
        )}
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
      <Text size="sm" c={node.skipped ? "dimmed" : undefined}>
        {node.skipped ? "– " : node.pass ? "✓ " : "✗ "}
        {words(node.type)} {said?.path ?? said?.field ?? said?.key} {node.op ? words(node.op) : ""}{" "}
        {node.expected !== undefined && <Code>{JSON.stringify(node.expected)}</Code>}
        {node.actual !== undefined && (
          <>
            {", was "}
            <Code>{JSON.stringify(node.actual)}</Code>
          </>
        )}
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
      {rules.length === 0 && (
        <Text size="sm" c="dimmed">
          No rule listens to this event.
        </Text>
      )}
      {order.map((rule) => (
        <div key={`${rule.ruleId} ${rule.version}`}>
          <Group gap="xs">
            <Text fw={600} size="sm">
              {rule.ruleKey}
            </Text>
            <Badge color={rule.fired ? "teal" : "gray"}>{rule.fired ? "Fired" : words(rule.reason)}</Badge>
            {rule.shadow && <Badge color="violet">Shadow</Badge>}
            {rule.detail && (
              <Text size="xs" c="dimmed">
                {rule.detail}
              </Text>
            )}
          </Group>
          {rule.conditions && <Condition node={rule.conditions} of={of} />}
          {rule.effects.map((effect: any, index: number) => (
            <Text size="sm" key={index} ml="md">
              → <Effect type={effect.type} data={effect.data} />
            </Text>
          ))}
        </div>
      ))}
      {trace.quests?.length > 0 && (
        <div>
          <Text fw={600} size="sm">
            Quests
          </Text>
          {trace.quests.map((quest: any) => (
            <Text size="sm" key={quest.questKey}>{`${quest.questKey}: ${words(quest.reason)}`}</Text>
          ))}
        </div>
      )}
      {trace.leaderboards?.map(({ key, before, after }: any) => (
        <Text size="sm" key={key}>{`Leaderboard ${key}: ${number(before)} → ${number(after)}`}</Text>
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
