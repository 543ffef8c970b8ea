import { SimpleGrid, Stack } from "@mantine/core";
import { useCan } from "../api/hooks.ts";
import { compact, day, percent, words } from "../format.ts";
import { Exports, Reports, useBehind, useReport } from "./analytics-parts.tsx";
import { Experiments, Funnels, Segments } from "./analytics-funnels.tsx";
import { Chart, HeatTable } from "../ui/chart.tsx";
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

const Trends = () => {
  const { answer, controls } = useReport({
    report: "trends",
    id: "getAnalyticsTrends",
    names: ["metric", "interval", "compare", "breakdown", "cumulative"],
    usual: { metric: "activePlayers" },
  });
  return (
    <Stack>
      {controls}
      <Loaded query={answer}>
        {({ series, range, timezone }) => {
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

/** The first day after one began is D1, the second week W2. */
const columnOf = (unit: string, offset: number): string => `${unit.charAt(0).toUpperCase()}${offset}`;

const Retention = () => {
  const [dialog, showBehind] = useBehind();
  const { query, answer, controls } = useReport({
    report: "retention",
    id: "getAnalyticsRetention",
    names: ["unit", "type", "entry", "startEvent", "returnEvent"],
  });
  return (
    <Stack>
      {controls}
      <Loaded query={answer}>
        {({ overall, unit, cohorts }) => {
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
                columns={offsets.map((offset) => columnOf(unit, offset))}
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

const Cohorts = () => {
  const { answer, controls } = useReport({
    report: "cohorts",
    id: "getAnalyticsCohorts",
    names: ["unit", "metric", "cumulative", "segmentBy", "property"],
    usual: { period: "90d" },
  });
  return (
    <Stack>
      {controls}
      <Loaded query={answer}>
        {(data) => {
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
              columns={Array.from({ length: columns }, (_, k) => columnOf(data.unit, k))}
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
