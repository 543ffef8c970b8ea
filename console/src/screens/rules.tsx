import { Alert, Badge, Grid, Group, Select, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useApi, useCan, useProject } from "../api/hooks.ts";
import { type Answer, call } from "../api/client.ts";
import { count, day, duration, nameOf, number, own, percent, words } from "../format.ts";
import { Bars, Chart } from "../ui/chart.tsx";
import { DraftForm, DraftPage } from "../ui/draft.tsx";
import { describe } from "../ui/effects.tsx";
import { OneOf } from "../ui/filters.tsx";
import { form, JobProgress } from "../ui/operations.tsx";
import { Chips, Empty, ErrorNote, Hint, Inline, Json, press, Read, Section, Tiles } from "../ui/page.tsx";
import { List } from "../ui/table.tsx";
import { useSending } from "../ui/sending.tsx";
import { Trace } from "./events.tsx";
import { Catalogue } from "../ui/catalogue.tsx";

type Rule = Answer<"getRule">;

/** Fields of a rule that stand first, in the order in which one thinks of them. */
const FIRST = ["name", "key", "triggers", "conditions", "actions"];

/** What a rule begins as: something that runs, to be changed. */
const NEW = {
  key: "my-first-rule",
  name: "My first rule",
  triggers: [{ kind: "EVENT", eventTypes: ["level_finished"] }],
  actions: [{ type: "grant_xp", amount: 10 }],
};

export const Rules = () => (
  <Catalogue
    id="listRules"
    one="rule"
    about="When an event comes, if conditions hold, then players get something."
    form={{
      first: FIRST,
      initial: NEW,
      submit: "Save the draft",
      done: "Saved as a draft: publish it when it is right",
    }}
    hint="A rule turns what players do into XP, badges and more."
    filters={["search", "status", "eventType", "tag", "sort"]}
    columns={{
      Does: ({ draft }) => sentence(draft),
      Status: "status",
      Tags: ({ tags }) => <Chips of={tags} />,
      Changed: "updatedAt",
    }}
    wide={["Does", "Tags"]}
  />
);

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
    own(SIGNS, part?.op) && op !== "add" ? `(${valueText(part)})` : valueText(part),
  );
  const sign = own(SIGNS, op);
  return sign ? parts.join(sign) : `${op}(${parts.join(", ")})`;
};

/** The parts of a list; of what should be one and is not, itself. */
const partsOf = (value: any): any[] => (value == null ? [] : [value].flat());

const conditionText = (condition: any): string => {
  for (const [group, between] of [
    ["all", " and "],
    ["any", " or "],
    ["none", " nor "],
  ] as const) {
    const parts = condition?.[group];
    if (!Array.isArray(parts)) continue;
    const inner = parts.map(conditionText).join(between);
    return group === "none" ? `not (${inner})` : parts.length > 1 ? `(${inner})` : inner;
  }
  const { type, path, field, op, value, metric, streakKey, key, leaderboardKey, segmentKeys } =
    condition ?? {};
  const what = valueText(path ?? field ?? streakKey ?? key ?? leaderboardKey ?? segmentKeys);
  const counted = metric ? `${valueText(metric.aggregate)} of ${valueText(metric.eventTypes)}` : "";
  const kind =
    type === "event_property" ? "" : type === "player_property" ? "the player's" : words(valueText(type));
  return [kind, what || counted, words(valueText(op)), valueText(value)].filter(Boolean).join(" ");
};

const VERBS: Record<string, string> = {
  grant_xp: "give",
  adjust_currency: "give",
  adjust_lives: "give lives",
};

const actionText = (action: any): string => {
  const { amount, operation, currencyKey, badgeKey, rewardKey, key, leaderboardKey, eventType, boostKey } =
    action ?? {};
  const type = valueText(action?.type);
  const what = currencyKey ?? badgeKey ?? rewardKey ?? key ?? leaderboardKey ?? eventType ?? boostKey;
  const does = operation ? `${valueText(operation)} ${type.replace("update_", "")}` : own(VERBS, type);
  const given = type === "grant_xp" ? "XP" : valueText(what);
  return [(does ?? words(type)).toLowerCase(), valueText(amount), given].filter(Boolean).join(" ");
};

/** A rule in one sentence: when, if, then. */
export const sentence = (rule: any): string => {
  const triggers = partsOf(rule?.triggers)
    .map((one) => partsOf(one?.eventTypes).map(valueText).join(" or ") || `at ${valueText(one?.cron)}`)
    .join(" or ");
  const conditions = rule?.conditions ? conditionText(rule.conditions) : "";
  const actions = partsOf(rule?.actions).map(actionText).join(", ");
  return `When ${triggers || "…"}${conditions ? `, if ${conditions}` : ""}, then ${actions || "…"}.`;
};

export const RulePage = ({ id }: { id: string }) => {
  const can = useCan();
  return (
    <DraftPage
      kind="rule"
      id={id}
      note={({ pauseReason }) => pauseReason && <Alert color="orange" title={pauseReason} />}
      design={(rule) => <Design rule={rule} key={rule.draftVersion} />}
      pages={(rule) => ({
        try: can("simulateRules") && ["Try it", () => <Try rule={rule} />],
        stats: ["Statistics", () => <Stats rule={rule} />],
        fired: ["When it fired", () => <Fired id={id} />],
      })}
    />
  );
};

/** The form on the left; what it means, as a sentence, as JSON and as the server sees it, on the right. */
const Design = ({ rule }: { rule: Rule }) => {
  const [value, setValue] = useState<any>(rule.draft);
  const { error, isBusy, send } = useSending();
  const [checked, setChecked] = useState<Answer<"validateRule">>();
  const check = send(async () => setChecked(await call("validateRule", { body: value as never })));
  return (
    <Grid>
      <Grid.Col span={{ base: 12, md: 7 }}>
        <DraftForm
          kind="rule"
          of={rule}
          first={FIRST}
          onChange={setValue}
          done="Draft saved: players see it once it is published"
        >
          {press("Check", check, { loading: isBusy })}
        </DraftForm>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 5 }}>
        <Stack>
          <Section title="In words">
            <Text>{sentence(value)}</Text>
          </Section>
          <ErrorNote error={error} />
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
      <Text key={`${field} ${message}`}>
        <b>{field}</b> {message}
      </Text>
    ))}
    {checked.estimatedCost && (
      <Hint>
        {`Cost: ${words(checked.estimatedCost.level).toLowerCase()} (${checked.estimatedCost.conditions} conditions, ${checked.estimatedCost.counters} counters)`}
      </Hint>
    )}
  </Section>
);

/** Runs the draft without effect: on an event that really came, and on all that came. */
const Try = ({ rule }: { rule: Rule }) => (
  <Stack>
    <OnOneEvent rule={rule} />
    <OnThePast rule={rule} />
  </Stack>
);

const LIMITS = { ignore: "Without limits", keep: "With limits" };

const OnOneEvent = ({ rule }: { rule: Rule }) => {
  const types: string[] = rule.draft.triggers.flatMap((one) => ("eventTypes" in one ? one.eventTypes : []));
  const exact = types.find((one) => !one.includes("*"));
  const recent = useApi("listEvents", {
    query: { limit: 20, ...(exact ? { eventType: exact } : {}) } as never,
  });
  const [chosen, setChosen] = useState<string | null>(null);
  const [limits, setLimits] = useState<keyof typeof LIMITS>("ignore");
  const { error, isBusy, send } = useSending();
  const [traced, setTraced] = useState<unknown>();
  const events = recent.data?.data ?? [];
  const event = events.find(({ id }) => id === chosen) ?? events[0];
  const simulate = send(async () => {
    if (!event) return;
    const { eventType, properties, externalUserId } = event;
    const body = {
      event: { eventType, properties },
      player: { externalUserId },
      include: { published: false, drafts: [rule.key] },
      ...(limits === "ignore" ? { overrides: { limits: "IGNORE" } } : {}),
    };
    setTraced(await call("simulateRules", { body: body as never }));
  });
  return (
    <Section title="On one event">
      {events.length === 0 ? (
        <Empty title="No such event has come yet">{`Send a ${exact ?? "fitting"} event first, under Live events.`}</Empty>
      ) : (
        <Inline>
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
          <OneOf label="Limits" of={LIMITS} value={limits} onChange={setLimits} />
          {press("Simulate", simulate, { isMain: true, loading: isBusy })}
        </Inline>
      )}
      <ErrorNote error={error} />
      {traced !== undefined && <Trace trace={traced} of={rule.draft} />}
    </Section>
  );
};

const OnThePast = ({ rule }: { rule: Rule }) => {
  const project = useProject();
  const can = useCan();
  const [job, setJob] = useState<string>();
  if (!can("backtestRule")) return null;
  const from = new Date(Date.now() - 7 * 86_400_000).toISOString();
  return (
    <Section title="On the past">
      <Hint>
        {`Replays events of ${project.name} against the rule and tells how often it would have fired. Nobody gets anything.`}
      </Hint>
      <Group>
        {form("backtestRule", "Backtest", {
          path: { ruleId: rule.id },
          initial: { from, to: new Date().toISOString() },
          first: ["from", "to"],
          submit: "Start",
          done: "",
          onDone: ({ id }) => setJob(id),
        })}
      </Group>
      {job && (
        <JobProgress
          id={job}
          title="Backtest"
          result={({ fired, events, playersReached, players }) => (
            <Text>
              {`It would have fired ${count(fired, "times")} on ${count(events, "events")}, for ${number(playersReached)} of ${count(players, "players")}.`}
            </Text>
          )}
        />
      )}
    </Section>
  );
};

const Stats = ({ rule }: { rule: Rule }) => {
  const lift = useApi(
    "getRuleLift",
    { path: { ruleId: rule.id } },
    { enabled: (rule.published?.rollout?.holdoutPercent ?? 0) > 0 },
  );
  return (
    <Read
      id="getRuleStats"
      given={{
        path: { ruleId: rule.id },
        query: {
          interval: "DAY",
          from: new Date(Date.now() - 30 * 86_400_000).toISOString().slice(0, 10),
        } as never,
      }}
    >
      {({ total, buckets }) => {
        const p99 = total.sampled.p99Micros ?? undefined;
        const slowest = p99 && (p99 < 1e6 ? `${number(p99)} µs` : duration(p99 / 1e6));
        return (
          <Stack>
            <Tiles
              of={{
                "Looked at": [total.evaluated, "events in 30 days"],
                Fired: [total.fired, percent(total.fired / (total.evaluated || 1))],
                "Slowest 1 %": slowest,
              }}
            />
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
                  .map(([reason, value]) => ({ name: words(reason), value }))}
              />
            </Section>
            {lift.data && (
              <Section title="Against players held back">
                <Tiles
                  of={{
                    "Came back, with the rule": cameBack(lift.data.treated),
                    "Came back, without": cameBack(lift.data.holdout),
                  }}
                />
              </Section>
            )}
          </Stack>
        );
      }}
    </Read>
  );
};

const cameBack = (of: { activeLaterShare: number | null; players: number }): [string, string] => [
  percent(of.activeLaterShare),
  count(of.players, "players"),
];

const Fired = ({ id }: { id: string }) => (
  <List
    id="listRuleExecutions"
    path={{ ruleId: id }}
    filters={["mode", "from", "to"]}
    to={({ eventId }) => `/events/${eventId}`}
    empty="It has not fired yet"
    columns={{
      When: "createdAt",
      Player: nameOf,
      Version: "ruleVersion",
      Effects: ({ effects }) => effects?.map((one: any) => describe(one.type, one.data)).join(", "),
      Mode: ({ mode, revertedAt }) => (
        <>
          {mode === "LIVE" ? "" : <Badge color="violet">{words(mode)}</Badge>}
          {revertedAt && <Badge color="orange">Reverted</Badge>}
        </>
      ),
    }}
  />
);
