import { Stack, Text } from "@mantine/core";
import { type Answer } from "../api/client.ts";
import { useAny } from "../api/hooks.ts";
import { compact, day, percent, words } from "../format.ts";
import { Chart } from "../ui/chart.tsx";
import { useFilters } from "../ui/filters.ts";
import { HeatTable } from "../ui/heat.tsx";
import { Loaded } from "../ui/page.tsx";
import { AddedUp, Choice, Controls, queryOf, Typed, useBehind } from "./analytics-parts.tsx";

export const Retention = () => {
  const [filters] = useFilters({ period: "30d", unit: "day", type: "nday", entry: "first_time" });
  const [dialog, showBehind] = useBehind();
  const query = queryOf(filters, ["unit", "type", "entry", "startEvent", "returnEvent"]);
  const retention = useAny("getAnalyticsRetention", { query });
  return (
    <Stack>
      <Controls report="retention" query={query}>
        <Choice name="unit" options={["day", "week", "month"]} />
        <Choice name="type" options={["nday", "unbounded", "within"]} />
        <Choice name="entry" options={["first_time", "recurring"]} />
        <Typed name="startEvent" placeholder="any event" />
        <Typed name="returnEvent" placeholder="any event" />
      </Controls>
      <Loaded query={retention}>
        {({ overall, unit, cohorts }: Answer<"getAnalyticsRetention">) => {
          const offsets = overall.map(({ offset }) => offset);
          const cellOf = (cells: any[], offset: number) => {
            const cell = cells.find((one) => one.offset === offset);
            if (!cell) return undefined;
            return { share: cell.rate, text: percent(cell.rate), isComplete: cell.complete !== false };
          };
          return (
            <Stack>
              <Chart
                name="Players who come back"
                labels={offsets.map((offset) => `${words(unit)} ${offset}`)}
                series={[{ name: "Come back", values: overall.map(({ rate }) => rate) }]}
                isPercent
                height={220}
              />
              <HeatTable
                name="Retention by cohort"
                first="Began"
                columns={offsets.map(String)}
                rows={cohorts.map(({ period, size, cells }) => ({
                  label: day(period),
                  size,
                  cells: offsets.map((offset) => cellOf(cells, offset)),
                }))}
                onCell={(row, column) => {
                  const cohort = cohorts[row]!.period;
                  const offset = String(offsets[column]);
                  showBehind(`Began ${day(cohort)}, came back after ${offset}`, {
                    ...query,
                    of: "retention",
                    cohort,
                    offset,
                    returned: "true",
                  });
                }}
              />
            </Stack>
          );
        }}
      </Loaded>
      {dialog}
    </Stack>
  );
};

export const Cohorts = () => {
  const [filters] = useFilters({ period: "90d", unit: "week", metric: "players" });
  const query = {
    ...queryOf(filters, ["unit", "metric", "cumulative", "property"]),
    ...(filters["property"] ? { segmentBy: "property" } : {}),
  };
  const cohorts = useAny("getAnalyticsCohorts", { query });
  return (
    <Stack>
      <Controls usual="90d" report="cohorts" query={query}>
        <Choice name="unit" options={["week", "day", "month"]} />
        <Choice name="metric" options={["players", "rate", "events", "eventsPerPlayer", "xp"]} />
        <Typed name="property" label="Cohorts by property" placeholder="by the day they came" />
        <AddedUp />
      </Controls>
      <Loaded query={cohorts}>
        {(data: Answer<"getAnalyticsCohorts">) => {
          // Each number is for one player of its cohort.
          const rows = data.cohorts.map(({ size, values, ...cohort }) => ({
            ...cohort,
            size,
            shares: values.map((value) => value / Math.max(1, size)),
          }));
          const most = Math.max(1, ...rows.flatMap(({ shares }) => shares));
          const columns = Math.max(0, ...rows.map(({ shares }) => shares.length));
          return (
            <HeatTable
              name="Cohorts"
              first="Cohort"
              columns={Array.from({ length: columns }, (_, k) => `${k}`)}
              rows={rows.map(({ label, size, shares, complete }) => ({
                label: day(label),
                size,
                cells: shares.map((value, k) => ({
                  share: value / most,
                  text: compact(value),
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
