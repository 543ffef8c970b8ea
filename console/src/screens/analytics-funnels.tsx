import { Alert, Group, Select, SimpleGrid, Stack, TagsInput, Text } from "@mantine/core";
import type { Answer } from "../api/client.ts";
import { useAny, useApi } from "../api/hooks.ts";
import { count, duration, number, percent, words } from "../format.ts";
import { Bars } from "../ui/chart.tsx";
import { OneOf, useFilters } from "../ui/filters.tsx";
import { ButtonSize, Empty, ErrorNote, Loaded, press, Section, Tiles } from "../ui/page.tsx";
import { PlainTable } from "../ui/table.tsx";
import {
  Choice,
  Controls,
  MetricsInput,
  PERIODS,
  queryOf,
  SaveReport,
  Typed,
  useBehind,
} from "./analytics-parts.tsx";

const RANGE = { period: ["30d", ...PERIODS] };
const ORDERS = ["ordered", "strict", "any"];

export const Funnels = () => {
  const [filters, choose] = useFilters({ ...RANGE, steps: "", window: "7d", order: ORDERS });
  const types = useApi("listEventTypes", { query: { limit: 100 } });
  const [dialog, showBehind] = useBehind();
  const steps = filters["steps"]!.split(",").filter(Boolean);
  const isAsked = steps.length > 1;
  const query = queryOf(filters, ["steps", "window", "order"]);
  const funnel = useAny("getAnalyticsFunnel", { query }, { enabled: isAsked });
  return (
    <Stack>
      <Controls report={isAsked ? "funnels" : undefined} query={query}>
        <Typed name="window" label="Within" description="1h, 7d, 4w" w={90} usual="7d" />
        <Choice name="order" options={ORDERS} />
      </Controls>
      <TagsInput
        label="Steps, in order"
        placeholder={isAsked ? "" : "Choose at least two events"}
        data={types.data?.data.map(({ name }) => name) ?? []}
        value={steps}
        onChange={(next) => choose({ steps: next.join(",") })}
        allowDuplicates
        maxTags={20}
      />
      {!isAsked ? (
        <Empty title="How far do players come?">
          Choose the events that lead somewhere, such as signing up, playing and buying.
        </Empty>
      ) : (
        <Loaded query={funnel}>
          {(data: Answer<"getAnalyticsFunnel">) => (
            <Stack>
              <Tiles of={{ Began: data.entered, "Came to the end": [data.converted, percent(data.rate)] }} />
              <Section title="Step by step">
                <Bars
                  rows={data.steps.map(
                    ({ eventType, label, players, fromPrevious, medianSecondsFromPrevious: seconds }) => ({
                      name: label ?? eventType ?? "",
                      value: players,
                      note: `${percent(fromPrevious)}${seconds == null ? "" : `, after ${duration(seconds)}`}`,
                    }),
                  )}
                />
                <ButtonSize value="compact-xs">
                  <Group gap="xs">
                    {data.steps.slice(0, -1).map(({ index, eventType, dropOff }) => {
                      const lost = { ...query, of: "funnels", step: String(index), state: "dropped" };
                      const show = () => showBehind(`Lost after ${eventType}`, lost);
                      return press(`${number(dropOff)} lost after ${eventType}`, show, { key: index });
                    })}
                  </Group>
                </ButtonSize>
              </Section>
            </Stack>
          )}
        </Loaded>
      )}
      {dialog}
    </Stack>
  );
};

export const Segments = () => {
  const segments = useAny("getAnalyticsSegments", { query: { group: "all" } });
  const [dialog, showBehind] = useBehind();
  return (
    <Loaded query={segments}>
      {({ total, lastDay, groups }: Answer<"getAnalyticsSegments">) => (
        <Stack>
          <Group>
            <Text>{`${count(total, "players")}, as of ${lastDay}`}</Text>
            <SaveReport report="segments" query={{}} />
          </Group>
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            {groups.map(({ key: group, segments: found }) => {
              const parts = (found as any[]).map(({ key, label, players, count: size }) => ({
                key,
                name: label ?? words(key),
                value: players ?? size ?? 0,
                note: percent((players ?? size ?? 0) / Math.max(1, total)),
              }));
              return (
                <Section key={group} title={words(group)}>
                  <Bars rows={parts} />
                  <ButtonSize value="compact-xs">
                    <Group gap={4}>
                      {parts.map(({ key, name }) =>
                        press(name, () => showBehind(name, { of: "segments", group, segment: key }), { key }),
                      )}
                    </Group>
                  </ButtonSize>
                </Section>
              );
            })}
          </SimpleGrid>
          {dialog}
        </Stack>
      )}
    </Loaded>
  );
};

const METRIC = "activePlayers,events,xpGranted";
const AGAINST = { holdout: "Against those held back", excluded: "Against those left out" };

export const Experiments = () => {
  const [filters, choose] = useFilters({ ...RANGE, against: Object.keys(AGAINST), metric: METRIC });
  const rules = useApi("listRules", { query: { limit: 100 } });
  const tried =
    rules.data?.data.filter(({ published }) => {
      const { holdoutPercent = 0, percent: share = 100 } = published?.rollout ?? {};
      return (holdoutPercent ?? 0) > 0 || (share ?? 100) < 100;
    }) ?? [];
  const ruleId = (tried.find(({ id }) => id === filters["rule"]) ?? tried[0])?.id ?? "";
  const query = queryOf(filters, ["against", "metric"]);
  const experiment = useAny(
    "getAnalyticsExperiment",
    { path: { ruleId }, query },
    { enabled: ruleId !== "" && filters["metric"] !== "" },
  );
  if (rules.data && tried.length === 0)
    return (
      <Empty title="No rule is tried on a part of the players">
        Give a rule a rollout with players held back, and compare them here.
      </Empty>
    );
  return (
    <Stack>
      <Controls query={query}>
        <Select
          label="Rule"
          size="xs"
          data={tried.map(({ id, name }) => ({ value: id, label: name }))}
          value={ruleId === "" ? null : ruleId}
          onChange={(next) => choose({ rule: next ?? "" })}
        />
        <MetricsInput usual={METRIC} />
        <OneOf
          label="Compared with"
          of={AGAINST}
          value={filters["against"]}
          onChange={(against) => choose({ against })}
        />
      </Controls>
      {experiment.error && !experiment.data ? (
        <ErrorNote error={experiment.error} />
      ) : (
        <Loaded query={experiment}>
          {({ treated, control, notes, metrics }: Answer<"getAnalyticsExperiment">) => (
            <Stack>
              <Text>{`${count(treated, "players")} with the rule, ${number(control)} without`}</Text>
              {notes.map((note) => (
                <Alert key={note} color="yellow">
                  {note}
                </Alert>
              ))}
              <PlainTable
                name="Metrics"
                rows={metrics}
                columns={{
                  Metric: ({ metric }) => words(metric),
                  "With the rule": (row) => shownBy(row.kind)(row.treated.value),
                  Without: (row) => shownBy(row.kind)(row.control.value),
                  Difference: ({ difference, kind }) => difference && differenceText(difference, kind),
                }}
                right={["With the rule", "Without", "Difference"]}
              />
            </Stack>
          )}
        </Loaded>
      )}
    </Stack>
  );
};

/** Shares are shown as such. */
const shownBy = (kind: string) => (kind === "share" ? percent : number);

type Difference = { value: number; low: number; high: number };

const differenceText = ({ value, low, high }: Difference, kind: string): string => {
  const show = shownBy(kind);
  const isSure = low > 0 || high < 0;
  return `${show(value)} (${show(low)} to ${show(high)})${isSure ? "" : ", may be chance"}`;
};
