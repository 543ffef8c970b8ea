import { Group, Select, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { type Answer } from "../api/client.ts";
import { useAny } from "../api/hooks.ts";
import { compact, day, percent, words } from "../format.ts";
import { Chart } from "../ui/chart.tsx";
import { type Filters, useFilters } from "../ui/filters.ts";
import { HeatTable } from "../ui/heat.tsx";
import { Loaded } from "../ui/page.tsx";
import { Range, rangeOf, Choice, SaveReport, type Behind, PlayersBehind } from "./analytics-parts.tsx";

export const Retention = () => {
  const [filters, choose] = useFilters({ period: "30d", unit: "day", type: "nday", entry: "first_time" });
  const [behind, setBehind] = useState<Behind>();
  const query: Filters = {
    ...rangeOf(filters),
    unit: filters["unit"]!,
    type: filters["type"]!,
    entry: filters["entry"]!,
    ...(filters["startEvent"] ? { startEvent: filters["startEvent"] } : {}),
    ...(filters["returnEvent"] ? { returnEvent: filters["returnEvent"] } : {}),
  };
  const retention = useAny("getAnalyticsRetention", { query });
  return (
    <Stack>
      <Group align="flex-end" gap="xs">
        <Range filters={filters} choose={choose} />
        <Choice name="unit" options={["day", "week", "month"]} {...{ filters, choose }} />
        <Choice name="type" options={["nday", "unbounded", "within"]} {...{ filters, choose }} />
        <Choice name="entry" options={["first_time", "recurring"]} {...{ filters, choose }} />
        {["startEvent", "returnEvent"].map((name) => (
          <TextInput
            key={name}
            label={words(name)}
            size="xs"
            placeholder="any event"
            value={filters[name] ?? ""}
            onChange={(event) => choose({ [name]: event.currentTarget.value.trim() })}
          />
        ))}
        <SaveReport report="retention" query={query} />
      </Group>
      <Loaded query={retention}>
        {(data: Answer<"getAnalyticsRetention">) => {
          const offsets = data.overall.map(({ offset }) => offset);
          return (
            <Stack>
              <Chart
                name="Players who come back"
                labels={offsets.map((offset) => `${words(data.unit)} ${offset}`)}
                series={[{ name: "Come back", values: data.overall.map(({ rate }) => rate) }]}
                isPercent
                height={220}
              />
              <HeatTable
                name="Retention by cohort"
                first="Began"
                columns={offsets.map((offset) => `${offset}`)}
                rows={data.cohorts.map(({ period, size, cells }) => ({
                  label: day(period),
                  size,
                  cells: offsets.map((offset) => {
                    const cell = (cells as any[]).find((one) => one.offset === offset);
                    return cell
                      ? { share: cell.rate, text: percent(cell.rate), isComplete: cell.complete !== false }
                      : undefined;
                  }),
                }))}
                onCell={(row, column) =>
                  setBehind({
                    title: `Began ${day(data.cohorts[row]!.period)}, came back after ${offsets[column]}`,
                    query: {
                      ...query,
                      of: "retention",
                      cohort: data.cohorts[row]!.period,
                      offset: String(offsets[column]),
                      returned: "true",
                    },
                  })
                }
              />
              <PlayersBehind behind={behind} onClose={() => setBehind(undefined)} />
            </Stack>
          );
        }}
      </Loaded>
    </Stack>
  );
};

const COHORT_METRICS = ["players", "rate", "events", "eventsPerPlayer", "xp"].map((value) => ({
  value,
  label: words(value),
}));

export const Cohorts = () => {
  const [filters, choose] = useFilters({ period: "90d", unit: "week", metric: "players" });
  const query: Filters = {
    ...rangeOf(filters),
    unit: filters["unit"]!,
    metric: filters["metric"]!,
    ...(filters["cumulative"] ? { cumulative: "true" } : {}),
    ...(filters["property"] ? { segmentBy: "property", property: filters["property"] } : {}),
  };
  const cohorts = useAny("getAnalyticsCohorts", { query });
  return (
    <Stack>
      <Group align="flex-end" gap="xs">
        <Range filters={filters} choose={choose} />
        <Choice name="unit" options={["week", "day", "month"]} {...{ filters, choose }} />
        <Select
          label="Metric"
          size="xs"
          data={COHORT_METRICS}
          value={filters["metric"]!}
          onChange={(next) => next && choose({ metric: next })}
          allowDeselect={false}
          searchable
        />
        <TextInput
          label="Cohorts by property"
          size="xs"
          placeholder="by the day they came"
          value={filters["property"] ?? ""}
          onChange={(event) => choose({ property: event.currentTarget.value.trim() })}
        />
        <Switch
          label="Added up"
          size="xs"
          checked={filters["cumulative"] === "true"}
          onChange={(event) => choose({ cumulative: event.currentTarget.checked ? "true" : "" })}
        />
        <SaveReport report="cohorts" query={query} />
      </Group>
      <Loaded query={cohorts}>
        {(data: Answer<"getAnalyticsCohorts">) => {
          const most = Math.max(
            1,
            ...data.cohorts.flatMap(({ values, size }) => values.map((value) => value / Math.max(1, size))),
          );
          const columns = Math.max(0, ...data.cohorts.map(({ values }) => values.length));
          return (
            <HeatTable
              name="Cohorts"
              first="Cohort"
              columns={Array.from({ length: columns }, (_, k) => `${k}`)}
              rows={data.cohorts.map(({ label, size, values, complete }) => ({
                label: day(label),
                size,
                cells: values.map((value, k) => ({
                  share: value / Math.max(1, size) / most,
                  text: compact(value / Math.max(1, size)),
                  isComplete: complete[k] !== false,
                })),
              }))}
            />
          );
        }}
      </Loaded>
      <Text size="xs" c="dimmed">
        Each number is for one player of the cohort.
      </Text>
    </Stack>
  );
};
