import {
  Alert,
  Badge,
  Button,
  Grid,
  Group,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  Text,
} from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useProject, useTo } from "../app/project.ts";
import { type Answer, call } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { day, duration, number, percent, words } from "../format.ts";
import { Bars, Chart } from "../ui/chart.tsx";
import { DraftActions, type DraftOperations, DraftState, Versions } from "../ui/draft.tsx";
import { describe } from "../ui/effects.tsx";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { JobProgress } from "../ui/job.tsx";
import { Empty, ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Chips, Json, Section, Status, Tile, When, Named } from "../ui/small.tsx";
import { List, useOpen } from "../ui/table.tsx";
import { Pages } from "../ui/tabs.tsx";
import { useSending } from "../ui/sending.ts";
import { Trace } from "./events.tsx";

type Rule = Answer<"getRule">;

const OPERATIONS: DraftOperations = {
  publish: "publishRule",
  pause: "pauseRule",
  resume: "resumeRule",
  shadow: "shadowRule",
  duplicate: "duplicateRule",
  archive: "archiveRule",
  rollback: "rollbackRule",
  versions: "listRuleVersions",
};

/** Fields of a rule that stand first, in the order in which one thinks of them. */
const FIRST = ["name", "key", "triggers", "conditions", "actions"];

/** What a rule begins as: something that runs, to be changed. */
const NEW = {
  key: "my-first-rule",
  name: "My first rule",
  triggers: [{ kind: "EVENT", eventTypes: ["level_finished"] }],
  actions: [{ type: "grant_xp", amount: 10 }],
};

export const Rules = () => {
  const to = useTo();
  const can = useCan();
  const open = useOpen<{ id: string }>(({ id }) => to(`/rules/${id}`));
  const create = can("createRule") && (
    <FormButton
      id="createRule"
      label="New rule"
      first={FIRST}
      initial={NEW}
      submit="Save the draft"
      done="Saved as a draft: publish it when it is right"
      onDone={open}
    />
  );
  return (
    <Page
      title="Rules"
      about="When an event comes, if conditions hold, then players get something."
      actions={create}
    >
      <List
        id="listRules"
        name="Rules"
        filters={["search", "status", "eventType", "tag", "sort"]}
        onRow={open}
        empty={
          <Empty title="No rules yet">A rule turns what players do into XP, badges and more. {create}</Empty>
        }
        columns={[
          {
            title: "Rule",
            cell: ({ name, key }) => <Named name={name} more={key} />,
          },
          { title: "Does", cell: ({ draft }) => <Text size="sm">{sentence(draft)}</Text>, isWideOnly: true },
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
          { title: "Tags", cell: ({ tags }) => <Chips of={tags} />, isWideOnly: true },
          { title: "Changed", cell: ({ updatedAt }) => <When at={updatedAt} /> },
        ]}
      />
    </Page>
  );
};

const SIGNS: Record<string, string> = { add: " + ", sub: " − ", mul: " × ", div: " ÷ " };

/** A value, a reference or an expression, as one would write it on paper. */
const valueText = (value: any): string => {
  if (value === undefined || value === null) return "";
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return value.map(valueText).join(", ");
  if (typeof value.ref === "string") return value.ref.replace(/^event\.properties\./, "");
  const { op, args } = value;
  if (typeof op !== "string" || !Array.isArray(args)) return JSON.stringify(value);
  const parts = args.map((part: any) =>
    part?.op in SIGNS && op !== "add" ? `(${valueText(part)})` : valueText(part),
  );
  return op in SIGNS ? parts.join(SIGNS[op]) : `${op}(${parts.join(", ")})`;
};

const conditionText = (condition: any): string => {
  for (const [group, between] of [
    ["all", " and "],
    ["any", " or "],
    ["none", " nor "],
  ] as const) {
    const parts = condition[group];
    if (!Array.isArray(parts)) continue;
    const inner = parts.map(conditionText).join(between);
    return group === "none" ? `not (${inner})` : parts.length > 1 ? `(${inner})` : inner;
  }
  const { type, path, field, op, value, metric, streakKey, key, leaderboardKey, segmentKeys } = condition;
  const what = path ?? field ?? streakKey ?? key ?? leaderboardKey ?? segmentKeys?.join(", ") ?? "";
  const counted = metric ? `${metric.aggregate} of ${metric.eventTypes?.join(", ")}` : "";
  const kind =
    type === "event_property" ? "" : type === "player_property" ? "the player's" : words(type ?? "");
  return [kind, what || counted, op ? words(op) : "", valueText(value)].filter(Boolean).join(" ");
};

const VERBS: Record<string, string> = {
  grant_xp: "give",
  adjust_currency: "give",
  adjust_lives: "give lives",
};

const actionText = ({
  type,
  amount,
  currencyKey,
  badgeKey,
  rewardKey,
  key,
  leaderboardKey,
  eventType,
  boostKey,
  operation,
}: any): string => {
  const what = currencyKey ?? badgeKey ?? rewardKey ?? key ?? leaderboardKey ?? eventType ?? boostKey ?? "";
  const does = operation ? `${operation} ${type.replace("update_", "")}`.toLowerCase() : VERBS[type];
  return [does ?? words(type ?? "").toLowerCase(), valueText(amount), type === "grant_xp" ? "XP" : what]
    .filter(Boolean)
    .join(" ");
};

/** A rule in one sentence: when, if, then. */
export const sentence = (rule: any): string => {
  const triggers = (rule.triggers ?? [])
    .map((one: any) => one.eventTypes?.join(" or ") ?? `at ${one.cron}`)
    .join(" or ");
  const conditions = rule.conditions ? conditionText(rule.conditions) : "";
  const actions = (rule.actions ?? []).map(actionText).join(", ");
  return `When ${triggers || "…"}${conditions ? `, if ${conditions}` : ""}, then ${actions || "…"}.`;
};

export const RulePage = ({ id }: { id: string }) => {
  const rule = useApi("getRule", { path: { ruleId: id } });
  const to = useTo();
  const can = useCan();
  return (
    <Page
      title={rule.data?.name ?? "Rule"}
      parent={{ title: "Rules", to: to("/rules") }}
      actions={
        rule.data && (
          <DraftActions
            of={rule.data}
            param="ruleId"
            operations={OPERATIONS}
            to={(other) => to(other ? `/rules/${other}` : "/rules")}
          />
        )
      }
    >
      <Loaded query={rule}>
        {(data) => (
          <Stack>
            <DraftState of={data} />
            {data.pauseReason && <Alert color="orange" title={data.pauseReason} />}
            <Pages
              pages={{
                design: ["Design", () => <Design rule={data} key={data.draftVersion} />],
                try: can("simulateRules") && ["Try it", () => <Try rule={data} />],
                stats: ["Statistics", () => <Stats rule={data} />],
                fired: ["When it fired", () => <Fired rule={data} />],
                versions: ["Versions", () => <Versions of={data} param="ruleId" operations={OPERATIONS} />],
              }}
            />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
};

/** The form on the left; what it means, as a sentence, as JSON and as the server sees it, on the right. */
const Design = ({ rule }: { rule: Rule }) => {
  const [value, setValue] = useState<any>(rule.draft);
  const can = useCan();
  const { error, isBusy, send } = useSending();
  const [checked, setChecked] = useState<Answer<"validateRule">>();
  const check = send(async () => setChecked(await call("validateRule", { body: value as never })));
  return (
    <Grid>
      <Grid.Col span={{ base: 12, md: 7 }}>
        {can("updateRule") && rule.status !== "ARCHIVED" ? (
          <OperationForm
            id="updateRule"
            path={{ ruleId: rule.id }}
            initial={rule.draft}
            fixed={{ draftVersion: rule.draftVersion }}
            first={FIRST}
            hidden={["draftVersion"]}
            onChange={setValue}
            submit="Save the draft"
            done="Draft saved: players see it once it is published"
          >
            <Button variant="default" onClick={() => check()} loading={isBusy}>
              Check
            </Button>
          </OperationForm>
        ) : (
          <Json value={rule.draft} />
        )}
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 5 }}>
        <Stack>
          <Section title="In words">
            <Text size="sm">{sentence(value)}</Text>
          </Section>
          {error !== undefined && <ErrorNote error={error} />}
          {checked && <Checked checked={checked} />}
          <Section title="As JSON">
            <Json value={value} />
          </Section>
        </Stack>
      </Grid.Col>
    </Grid>
  );
};

const Checked = ({ checked }: { checked: Answer<"validateRule"> }) => (
  <Section title={checked.valid ? "It can be published" : "It cannot be published yet"}>
    {[...checked.errors, ...checked.warnings].map(({ field, message }) => (
      <Text size="sm" key={`${field} ${message}`}>
        <b>{field}</b> {message}
      </Text>
    ))}
    {checked.estimatedCost && (
      <Text size="sm" c="dimmed">
        {`Cost: ${words(checked.estimatedCost.level).toLowerCase()} (${checked.estimatedCost.conditions} conditions, ${checked.estimatedCost.counters} counters)`}
      </Text>
    )}
  </Section>
);

/** Runs the draft on an event that really came, without effect. */
const Try = ({ rule }: { rule: Rule }) => {
  const project = useProject();
  const can = useCan();
  const types: string[] = rule.draft.triggers.flatMap((one) => ("eventTypes" in one ? one.eventTypes : []));
  const exact = types.find((one) => !one.includes("*"));
  const recent = useApi("listEvents", {
    query: { limit: 20, ...(exact ? { eventType: exact } : {}) } as never,
  });
  const [chosen, setChosen] = useState<string | null>(null);
  const [limits, setLimits] = useState("ignore");
  const { error, isBusy, send } = useSending();
  const [traced, setTraced] = useState<unknown>();
  const [job, setJob] = useState<string>();
  const events = recent.data?.data ?? [];
  const event = events.find(({ id }) => id === chosen) ?? events[0];
  const simulate = send(async () => {
    if (!event) return;
    setTraced(
      await call("simulateRules", {
        body: {
          event: { eventType: event.eventType, properties: event.properties },
          player: { externalUserId: event.externalUserId },
          include: { published: false, drafts: [rule.key] },
          ...(limits === "ignore" ? { overrides: { limits: "IGNORE" } } : {}),
        } as never,
      }),
    );
  });
  return (
    <Stack>
      <Section title="On one event">
        {events.length === 0 ? (
          <Empty title="No such event has come yet">{`Send a ${exact ?? "fitting"} event first, under Live events.`}</Empty>
        ) : (
          <Group align="flex-end">
            <Select
              label="Event"
              style={{ flex: 1, minWidth: 240 }}
              data={events.map((one) => ({
                value: one.id,
                label: `${one.eventType} of ${one.externalUserId}: ${JSON.stringify(one.properties)}`,
              }))}
              value={event?.id ?? null}
              onChange={setChosen}
              allowDeselect={false}
            />
            <SegmentedControl
              data={[
                { value: "ignore", label: "Without limits" },
                { value: "keep", label: "With limits" },
              ]}
              value={limits}
              onChange={setLimits}
              aria-label="Limits"
            />
            <Button onClick={() => simulate()} loading={isBusy}>
              Simulate
            </Button>
          </Group>
        )}
        {error !== undefined && <ErrorNote error={error} />}
        {traced !== undefined && <Trace trace={traced} of={rule.draft} />}
      </Section>
      {can("backtestRule") && (
        <Section title="On the past">
          <Text size="sm" c="dimmed">
            {`Replays events of ${project.name} against the rule and tells how often it would have fired. Nobody gets anything.`}
          </Text>
          <Group>
            <FormButton
              id="backtestRule"
              path={{ ruleId: rule.id }}
              label="Backtest"
              variant="default"
              initial={{
                from: new Date(Date.now() - 7 * 86_400_000).toISOString(),
                to: new Date().toISOString(),
              }}
              first={["from", "to"]}
              submit="Start"
              done=""
              onDone={({ id }) => setJob(id)}
            />
          </Group>
          {job && (
            <JobProgress
              id={job}
              title="Backtest"
              result={(found) => (
                <Text size="sm">
                  {`It would have fired ${number(found.fired)} times on ${number(found.events)} events, for ${number(found.playersReached)} of ${number(found.players)} players.`}
                </Text>
              )}
            />
          )}
        </Section>
      )}
    </Stack>
  );
};

const Stats = ({ rule }: { rule: Rule }) => {
  const stats = useApi("getRuleStats", {
    path: { ruleId: rule.id },
    query: {
      interval: "DAY",
      from: new Date(Date.now() - 30 * 86_400_000).toISOString().slice(0, 10),
    } as never,
  });
  const lift = useApi(
    "getRuleLift",
    { path: { ruleId: rule.id } },
    { enabled: (rule.published?.rollout?.holdoutPercent ?? 0) > 0 },
  );
  return (
    <Loaded query={stats}>
      {({ total, buckets }) => (
        <Stack>
          <SimpleGrid cols={{ base: 2, md: 4 }}>
            <Tile name="Looked at" value={number(total.evaluated)} note="events in 30 days" />
            <Tile
              name="Fired"
              value={number(total.fired)}
              note={percent(total.evaluated ? total.fired / total.evaluated : 0)}
            />
            {total.sampled.p99Micros != null && (
              <Tile
                name="Slowest 1 %"
                value={
                  duration(total.sampled.p99Micros / 1e6) === "0 s"
                    ? `${number(total.sampled.p99Micros)} µs`
                    : duration(total.sampled.p99Micros / 1e6)
                }
              />
            )}
          </SimpleGrid>
          <Section title="Fired a day">
            <Chart
              name="Fired a day"
              labels={buckets.map(({ from }) => day(from.slice(0, 10)))}
              series={[{ name: "Fired", values: buckets.map(({ fired }) => fired) }]}
            />
          </Section>
          <Section title="Why it did not fire">
            <Bars
              rows={Object.entries(total.reasons as Record<string, number>)
                .filter(([reason]) => reason !== "MATCHED")
                .toSorted(([, a], [, b]) => b - a)
                .map(([reason, count]) => ({ name: words(reason), value: count }))}
            />
          </Section>
          {lift.data && (
            <Section title="Against players held back">
              <SimpleGrid cols={{ base: 2, md: 4 }}>
                <Tile
                  name="Came back, with the rule"
                  value={percent(lift.data.treated.activeLaterShare)}
                  note={`${number(lift.data.treated.players)} players`}
                />
                <Tile
                  name="Came back, without"
                  value={percent(lift.data.holdout.activeLaterShare)}
                  note={`${number(lift.data.holdout.players)} players`}
                />
              </SimpleGrid>
            </Section>
          )}
        </Stack>
      )}
    </Loaded>
  );
};

const Fired = ({ rule }: { rule: Rule }) => {
  const to = useTo();
  const [, go] = useLocation();
  return (
    <List
      id="listRuleExecutions"
      path={{ ruleId: rule.id }}
      name="When the rule fired"
      filters={["mode", "from", "to"]}
      onRow={({ eventId }) => go(to(`/events/${eventId}`))}
      empty={<Empty title="It has not fired yet" />}
      columns={[
        { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
        { title: "Player", cell: ({ externalUserId, playerId }) => externalUserId ?? playerId },
        { title: "Version", cell: ({ ruleVersion }) => ruleVersion, isNumber: true },
        {
          title: "Effects",
          cell: ({ effects }) => effects?.map((one: any) => describe(one.type, one.data)).join(", "),
        },
        {
          title: "Mode",
          cell: ({ mode, revertedAt }) => (
            <>
              {mode === "LIVE" ? "" : <Badge color="violet">{words(mode)}</Badge>}
              {revertedAt && <Badge color="orange">Reverted</Badge>}
            </>
          ),
        },
      ]}
    />
  );
};
