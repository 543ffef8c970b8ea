import {
  Alert,
  Button,
  Group,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  TagsInput,
  Text,
  TextInput,
} from "@mantine/core";
import { useState } from "react";
import { type Answer } from "../api/client.ts";
import { useAny, useApi } from "../api/hooks.ts";
import { duration, number, percent, words } from "../format.ts";
import { Bars } from "../ui/chart.tsx";
import { type Filters, useFilters } from "../ui/filters.ts";
import { Empty, ErrorNote, Loaded } from "../ui/page.tsx";
import { Section, Tile } from "../ui/small.tsx";
import { PlainTable } from "../ui/table.tsx";
import {
  Range,
  rangeOf,
  Choice,
  MetricsInput,
  SaveReport,
  type Behind,
  PlayersBehind,
} from "./analytics-parts.tsx";

export const Funnels = () => {
  const [filters, choose] = useFilters({ period: "30d", steps: "", window: "7d", order: "ordered" });
  const types = useApi("listEventTypes", { query: { limit: 100 } });
  const [behind, setBehind] = useState<Behind>();
  const steps = (filters["steps"] ?? "").split(",").filter(Boolean);
  const query: Filters = {
    ...rangeOf(filters),
    steps: steps.join(","),
    window: filters["window"]!,
    order: filters["order"]!,
  };
  const funnel = useAny("getAnalyticsFunnel", { query }, { enabled: steps.length > 1 });
  return (
    <Stack>
      <Group align="flex-end" gap="xs">
        <Range filters={filters} choose={choose} />
        <TextInput
          label="Within"
          description="1h, 7d, 4w"
          size="xs"
          w={90}
          value={filters["window"] ?? ""}
          onChange={(event) => choose({ window: event.currentTarget.value.trim() })}
        />
        <Choice name="order" options={["ordered", "strict", "any"]} {...{ filters, choose }} />
        {steps.length > 1 && <SaveReport report="funnels" query={query} />}
      </Group>
      <TagsInput
        label="Steps, in order"
        placeholder={steps.length < 2 ? "Choose at least two events" : ""}
        data={types.data?.data.map(({ name }) => name) ?? []}
        value={steps}
        onChange={(next) => choose({ steps: next.join(",") })}
        allowDuplicates
        maxTags={20}
      />
      {steps.length < 2 ? (
        <Empty title="How far do players come?">
          Choose the events that lead somewhere, such as signing up, playing and buying.
        </Empty>
      ) : (
        <Loaded query={funnel}>
          {(data: Answer<"getAnalyticsFunnel">) => (
            <Stack>
              <SimpleGrid cols={{ base: 2, md: 4 }}>
                <Tile name="Began" value={number(data.entered)} />
                <Tile name="Came to the end" value={number(data.converted)} note={percent(data.rate)} />
              </SimpleGrid>
              <Section title="Step by step">
                <Bars
                  rows={data.steps.map(
                    ({ eventType, label, players, fromPrevious, medianSecondsFromPrevious }) => ({
                      name: label ?? eventType ?? "",
                      value: players,
                      note: [
                        percent(fromPrevious),
                        medianSecondsFromPrevious == null
                          ? ""
                          : `after ${duration(medianSecondsFromPrevious)}`,
                      ]
                        .filter(Boolean)
                        .join(", "),
                    }),
                  )}
                />
                <Group gap="xs">
                  {data.steps.slice(0, -1).map(({ index, eventType, dropOff }) => (
                    <Button
                      key={index}
                      size="compact-xs"
                      variant="default"
                      onClick={() =>
                        setBehind({
                          title: `Lost after ${eventType}`,
                          query: { ...query, of: "funnels", step: String(index), state: "dropped" },
                        })
                      }
                    >
                      {`${number(dropOff)} lost after ${eventType}`}
                    </Button>
                  ))}
                </Group>
              </Section>
              <PlayersBehind behind={behind} onClose={() => setBehind(undefined)} />
            </Stack>
          )}
        </Loaded>
      )}
    </Stack>
  );
};

export const Segments = () => {
  const segments = useAny("getAnalyticsSegments", { query: { group: "all" } });
  const [behind, setBehind] = useState<Behind>();
  return (
    <Loaded query={segments}>
      {(data: Answer<"getAnalyticsSegments">) => (
        <Stack>
          <Group>
            <Text size="sm">{`${number(data.total)} players, as of ${data.lastDay}`}</Text>
            <SaveReport report="segments" query={{}} />
          </Group>
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            {data.groups.map(({ key, segments: parts }) => (
              <Section key={key} title={words(key)}>
                <Bars
                  rows={(parts as any[]).map((part) => ({
                    name: part.label ?? words(part.key),
                    value: part.players ?? part.count ?? 0,
                    note: percent((part.players ?? part.count ?? 0) / Math.max(1, data.total)),
                  }))}
                />
                <Group gap={4}>
                  {(parts as any[]).map((part) => (
                    <Button
                      key={part.key}
                      size="compact-xs"
                      variant="default"
                      onClick={() =>
                        setBehind({
                          title: part.label ?? words(part.key),
                          query: { of: "segments", group: key, segment: part.key },
                        })
                      }
                    >
                      {part.label ?? words(part.key)}
                    </Button>
                  ))}
                </Group>
              </Section>
            ))}
          </SimpleGrid>
          <PlayersBehind behind={behind} onClose={() => setBehind(undefined)} />
        </Stack>
      )}
    </Loaded>
  );
};

export const Experiments = () => {
  const [filters, choose] = useFilters({
    period: "30d",
    rule: "",
    against: "holdout",
    metric: "activePlayers,events,xpGranted",
  });
  const rules = useApi("listRules", { query: { limit: 100 } });
  const tried =
    rules.data?.data.filter(
      ({ published }) =>
        (published?.rollout?.holdoutPercent ?? 0) > 0 || (published?.rollout?.percent ?? 100) < 100,
    ) ?? [];
  const ruleId = filters["rule"] || tried[0]?.id || "";
  const experiment = useAny(
    "getAnalyticsExperiment",
    {
      path: { ruleId },
      query: { ...rangeOf(filters), against: filters["against"]!, metric: filters["metric"]! },
    },
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
      <Group align="flex-end" gap="xs">
        <Range filters={filters} choose={choose} />
        <Select
          label="Rule"
          size="xs"
          data={tried.map(({ id, name }) => ({ value: id, label: name }))}
          value={ruleId === "" ? null : ruleId}
          onChange={(next) => choose({ rule: next ?? "" })}
        />
        <MetricsInput {...{ filters, choose }} />
        <SegmentedControl
          size="xs"
          data={[
            { value: "holdout", label: "Against those held back" },
            { value: "excluded", label: "Against those left out" },
          ]}
          value={filters["against"] ?? "holdout"}
          onChange={(next) => choose({ against: next })}
          aria-label="Compared with"
        />
      </Group>
      {experiment.error && !experiment.data ? (
        <ErrorNote error={experiment.error} />
      ) : (
        <Loaded query={experiment}>
          {(data: Answer<"getAnalyticsExperiment">) => (
            <Stack>
              <Text size="sm">{`${number(data.treated)} players with the rule, ${number(data.control)} without`}</Text>
              {data.notes.map((note) => (
                <Alert key={note} color="yellow">
                  {note}
                </Alert>
              ))}
              <PlainTable
                name="Metrics"
                rows={data.metrics}
                keyOf={({ metric }) => metric}
                columns={[
                  { title: "Metric", cell: ({ metric }) => words(metric) },
                  {
                    title: "With the rule",
                    cell: ({ treated, kind }) =>
                      kind === "share" ? percent(treated.value) : number(treated.value),
                    isNumber: true,
                  },
                  {
                    title: "Without",
                    cell: ({ control, kind }) =>
                      kind === "share" ? percent(control.value) : number(control.value),
                    isNumber: true,
                  },
                  {
                    title: "Difference",
                    isNumber: true,
                    cell: ({ difference, kind }) => {
                      if (!difference) return "–";
                      const show = kind === "share" ? percent : number;
                      const isSure = difference.low > 0 || difference.high < 0;
                      return `${show(difference.value)} (${show(difference.low)} to ${show(difference.high)})${isSure ? "" : ", may be chance"}`;
                    },
                  },
                ]}
              />
            </Stack>
          )}
        </Loaded>
      )}
    </Stack>
  );
};
