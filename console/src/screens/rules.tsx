import { Select, SimpleGrid, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { unsaved, useCan, useProject, useRead } from "../api/hooks.ts";
import { type Answer, call } from "../api/client.ts";
import { count, day, duration, nameOf, number, own, percent, words } from "../format.ts";
import { Bars, Chart } from "../ui/chart.tsx";
import { OneOf } from "../ui/filters.tsx";
import { form } from "../ui/operations.tsx";
import { Chips, Empty, ErrorNote, Hint, Inline, Json, press, Section, Status, Tiles } from "../ui/page.tsx";
import { List } from "../ui/table.tsx";
import { Trace } from "./events.tsx";
import { Catalogue, DefinitionForm, DRAFT, DraftPage } from "../ui/catalogue.tsx";
import { describe } from "../ui/cells.tsx";

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
    form={{ ...DRAFT, first: FIRST, initial: NEW }}
    hint="A rule turns what players do into XP, badges and more."
    filters={["search", "status", "eventType", "tag", "sort"]}
    columns={{ Does: ({ draft }) => sentence(draft), Tags: ({ tags }) => <Chips of={tags} /> }}
    wide={["Does", "Tags"]}
  />
);

const SIGNS = { add: " + ", sub: " − ", mul: " × ", div: " ÷ " };

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

/** By what a condition or an action names what it is about. */
const NAME = /^(path|field|eventType|key|\w+Keys?)$/;
const whatOf = (part: object): string =>
  valueText(Object.entries(part).find(([name]) => NAME.test(name))?.[1]);

const said = (...parts: string[]): string => parts.filter(Boolean).join(" ");

const GROUPS = { all: " and ", any: " or ", none: " nor " };
const KINDS = { event_property: "", player_property: "the player's" };

const conditionText = (given: any): string => {
  const condition = given ?? {};
  for (const [group, between] of Object.entries(GROUPS)) {
    const parts = condition[group];
    if (!Array.isArray(parts)) continue;
    const inner = parts.map(conditionText).join(between);
    return group === "none" ? `not (${inner})` : parts.length > 1 ? `(${inner})` : inner;
  }
  const { type, op, value, metric } = condition;
  const counted = metric ? `${valueText(metric.aggregate)} of ${valueText(metric.eventTypes)}` : "";
  const kind = own(KINDS, type) ?? words(valueText(type));
  return said(kind, whatOf(condition) || counted, words(valueText(op)), valueText(value));
};

const VERBS = { grant_xp: "give", adjust_currency: "give", adjust_lives: "give lives" };

const actionText = (given: any): string => {
  const action = given ?? {};
  const { amount, operation } = action;
  const type = valueText(action.type);
  const does = operation ? `${valueText(operation)} ${type.replace("update_", "")}` : own(VERBS, type);
  const what = type === "grant_xp" ? "XP" : whatOf(action);
  return said((does ?? words(type)).toLowerCase(), valueText(amount), what);
};

/** A rule in one sentence: when, if, then. */
const sentence = (rule: any): string => {
  const triggers = partsOf(rule?.triggers)
    .map((one) => partsOf(one?.eventTypes).map(valueText).join(" or ") || `at ${valueText(one?.cron)}`)
    .join(" or ");
  const conditions = rule?.conditions ? conditionText(rule.conditions) : "";
  const actions = partsOf(rule?.actions).map(actionText).join(", ");
  const limits = partsOf(rule?.limits?.perPlayer).map(
    ({ max, window } = {}) => `, at most ${valueText(max)} × ${words(valueText(window)).toLowerCase()}`,
  );
  return `When ${triggers || "…"}${conditions ? `, if ${conditions}` : ""}, then ${actions || "…"}${limits.join("")}.`;
};

export const RulePage = ({ id }: { id: string }) => {
  const can = useCan();
  return (
    <DraftPage
      one="rule"
      id={id}
      pages={(rule) => ({
        design: ["Design", () => <Design rule={rule} key={rule.draftVersion} />],
        try: can("simulateRules") && ["Try it", () => <Try rule={rule} />],
        stats: ["Statistics", () => <Stats rule={rule} />],
        fired: ["When it fired", () => <Fired id={id} />],
      })}
    />
  );
};

/** The form on the left; what it means, as a sentence, as JSON and as the server sees it, on the right. */
const Design = ({ rule }: { rule: Rule }) => {
  const [value, setValue] = useState<any>(unsaved.get(rule.id)?.value ?? rule.draft);
  const check = useMutation({ mutationFn: () => call("validateRule", { body: value }) });
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} style={{ alignItems: "start" }}>
      <DefinitionForm one="rule" of={rule} first={FIRST} onChange={setValue}>
        {press("Check", check.mutate, { loading: check.isPending })}
      </DefinitionForm>
      <Stack>
        <Section title="In words">
          <Text>{sentence(value)}</Text>
        </Section>
        <ErrorNote error={check.error} />
        {check.data && <Checked checked={check.data} />}
        <Section title="As JSON">
          <Json value={value} />
        </Section>
      </Stack>
    </SimpleGrid>
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

const daysAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString();

const LIMITS = { ignore: "Without limits", keep: "With limits" };

/** Runs the draft without effect: on an event that really came, and on all that came. */
const Try = ({ rule: { id, key, draft } }: { rule: Rule }) => {
  const project = useProject();
  const types: string[] = draft.triggers.flatMap((one) => ("eventTypes" in one ? one.eventTypes : []));
  const exact = types.find((one) => !one.includes("*"));
  const query = { limit: 20, ...(exact ? { eventType: exact } : {}) } as never;
  const { data: events } = useRead("listEvents", { query });
  const [chosen, setChosen] = useState<string | null>(null);
  const [limits, setLimits] = useState<keyof typeof LIMITS>("ignore");
  const event = events.find((one) => one.id === chosen) ?? events[0];
  const body: any = event && {
    event: { eventType: event.eventType, properties: event.properties },
    player: { externalUserId: event.externalUserId },
    include: { published: false, drafts: [key] },
    ...(limits === "ignore" ? { overrides: { limits: "IGNORE" } } : {}),
  };
  const simulate = useMutation({ mutationFn: () => call("simulateRules", { body }) });
  const backtest = form("backtestRule", "Backtest on the past", {
    path: { ruleId: id },
    about: `Replays events of ${project.name} against the rule and tells how often it would have fired. Nobody gets anything.`,
    initial: { from: daysAgo(7), to: daysAgo(0) },
    first: ["from", "to"],
    submit: "Start",
    job: ["Backtest", backtested],
  });
  return (
    <Section title="On one event" actions={backtest}>
      {event === undefined ? (
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
            value={event.id}
            onChange={setChosen}
            allowDeselect={false}
          />
          <OneOf label="Limits" of={LIMITS} value={limits} onChange={setLimits} />
          {press("Simulate", simulate.mutate, { isMain: true, loading: simulate.isPending })}
        </Inline>
      )}
      <ErrorNote error={simulate.error} />
      {simulate.data && <Trace trace={simulate.data} of={draft} />}
    </Section>
  );
};

const backtested = ({ fired, events, playersReached, players }: any) => (
  <Text>
    {`It would have fired ${count(fired, "times")} on ${count(events, "events")}, for ${number(playersReached)} of ${count(players, "players")}.`}
  </Text>
);

const Stats = ({ rule: { id, published } }: { rule: Rule }) => {
  const path = { ruleId: id };
  const query = { interval: "DAY", from: daysAgo(30).slice(0, 10) } as never;
  const { total, buckets } = useRead("getRuleStats", { path, query });
  const p99 = total.sampled.p99Micros ?? undefined;
  const reasons = Object.entries(total.reasons).filter(([reason]) => reason !== "MATCHED");
  return (
    <Stack>
      <Tiles
        of={{
          "Looked at": [total.evaluated, "events in 30 days"],
          Fired: [total.fired, percent(total.fired / (total.evaluated || 1))],
          "Slowest 1 %": p99 && (p99 < 1e6 ? `${number(p99)} µs` : duration(p99 / 1e6)),
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
          rows={reasons
            .toSorted(([, a], [, b]) => b - a)
            .map(([reason, value]) => ({ name: words(reason), value }))}
        />
      </Section>
      {(published?.rollout?.holdoutPercent ?? 0) > 0 && (
        <Section title="Against players held back">
          <Lift path={path} />
        </Section>
      )}
    </Stack>
  );
};

const Lift = ({ path }: { path: { ruleId: string } }) => {
  const { treated, holdout } = useRead("getRuleLift", { path });
  const cameBack = ({ activeLaterShare, players }: typeof treated): [string, string] => [
    percent(activeLaterShare),
    count(players, "players"),
  ];
  return (
    <Tiles of={{ "Came back, with the rule": cameBack(treated), "Came back, without": cameBack(holdout) }} />
  );
};

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
      Mode: ({ mode, revertedAt }) => <Status value={revertedAt ? "REVERTED" : mode} />,
    }}
  />
);
