import { SimpleGrid, Stack } from "@mantine/core";
import type { Answer } from "../api/client.ts";
import { useAny, useCan } from "../api/hooks.ts";
import { compact, day, percent, words } from "../format.ts";
import {
  AddedUp,
  Choice,
  Controls,
  Exports,
  MetricsInput,
  NOTHING,
  PERIODS,
  queryOf,
  Reports,
  Typed,
  useBehind,
} from "./analytics-parts.tsx";
import { Experiments, Funnels, Segments } from "./analytics-funnels.tsx";
import { Chart } from "../ui/chart.tsx";
import { useFilters } from "../ui/filters.tsx";
import { HeatTable } from "../ui/heat.tsx";
import { Hint, Loaded, Page, Tile } from "../ui/page.tsx";

export const Analytics = ({ tab = "trends" }: { tab?: string }) => {
  const can = useCan();
  return (
    <Page
      title="Analytics"
      at="/analytics"
      open={tab}
      pages={{
        trends: ["Trends", () => <Trends />],
        retention: ["Retention", () => <Retention />],
        cohorts: ["Cohorts", () => <Cohorts />],
        funnels: ["Funnels", () => <Funnels />],
        segments: ["Segments", () => <Segments />],
        experiments: ["Experiments", () => <Experiments />],
        reports: ["Saved reports", () => <Reports />],
        exports: can("listAnalyticsExports") && ["Exports", () => <Exports />],
      }}
    />
  );
};

const INTERVALS = ["day", "hour", "week", "month"];
const COMPARE = [NOTHING, "previous_period", "previous_week", "previous_year"];

const Trends = () => {
  const [filters] = useFilters({
    period: ["30d", ...PERIODS],
    metric: "activePlayers",
    interval: INTERVALS,
    compare: COMPARE,
  });
  const query = {
    ...queryOf(filters, ["metric", "interval", "compare", "breakdown", "cumulative"]),
    ...(filters["breakdown"] ? { limit: "8" } : {}),
  };
  const trends = useAny("getAnalyticsTrends", { query });
  return (
    <Stack>
      <Controls report="trends" query={query}>
        <MetricsInput usual="activePlayers" />
        <Choice name="interval" options={INTERVALS} />
        <Choice name="compare" options={COMPARE} label="Compared with" />
        <Typed name="breakdown" label="Broken down by" placeholder="country" />
        <AddedUp />
      </Controls>
      <Loaded query={trends}>
        {({ series, range, timezone }: Answer<"getAnalyticsTrends">) => {
          const [longest] = series.toSorted((a, b) => b.points.length - a.points.length);
          const labels = (longest?.points ?? []).map((point: any) => day(point.date ?? point.start ?? ""));
          const nameOf = ({ metric, breakdown }: (typeof series)[number]) =>
            [words(metric), breakdown].filter(Boolean).join(" · ");
          const valuesOf = (points: any[]): (number | null)[] => points.map(({ value }) => value);
          const lines = series.flatMap((one) => [
            { name: nameOf(one), values: valuesOf(one.points) },
            ...(one.previous
              ? [{ name: `${nameOf(one)}, before`, values: valuesOf(one.previous.points) }]
              : []),
          ]);
          return (
            <Stack>
              <SimpleGrid cols={{ base: 2, md: 4 }}>
                {series.map((one) => (
                  <Tile
                    key={nameOf(one)}
                    name={nameOf(one)}
                    value={compact(one.total)}
                    note={one.previous && `${compact(one.previous.total)} before`}
                  />
                ))}
              </SimpleGrid>
              <Chart name="Trends" labels={labels} series={lines} height={320} />
              <Hint size="xs">
                {`${range.from} to ${range.to}, ${timezone}${range.complete ? "" : "; the last days are not over yet"}`}
              </Hint>
            </Stack>
          );
        }}
      </Loaded>
    </Stack>
  );
};

const RETAINED = {
  unit: ["day", "week", "month"],
  type: ["nday", "unbounded", "within"],
  entry: ["first_time", "recurring"],
};

const Retention = () => {
  const [filters] = useFilters({ period: ["30d", ...PERIODS], ...RETAINED });
  const [dialog, showBehind] = useBehind();
  const query = queryOf(filters, ["unit", "type", "entry", "startEvent", "returnEvent"]);
  const retention = useAny("getAnalyticsRetention", { query });
  return (
    <Stack>
      <Controls report="retention" query={query}>
        {Object.entries(RETAINED).map(([name, options]) => (
          <Choice key={name} name={name} options={options} />
        ))}
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

const COHORTS = {
  unit: ["week", "day", "month"],
  metric: ["players", "rate", "events", "eventsPerPlayer", "xp"],
};

const Cohorts = () => {
  const [filters] = useFilters({ period: ["90d", ...PERIODS], ...COHORTS });
  const query = {
    ...queryOf(filters, ["unit", "metric", "cumulative", "property"]),
    ...(filters["property"] ? { segmentBy: "property" } : {}),
  };
  const cohorts = useAny("getAnalyticsCohorts", { query });
  return (
    <Stack>
      <Controls usual="90d" report="cohorts" query={query}>
        {Object.entries(COHORTS).map(([name, options]) => (
          <Choice key={name} name={name} options={options} />
        ))}
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
      <Hint size="xs">Each number is for one player of the cohort.</Hint>
    </Stack>
  );
};
