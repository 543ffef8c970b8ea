import { SimpleGrid, Stack, Text } from "@mantine/core";
import { useGo } from "../app/project.ts";
import { type Answer } from "../api/client.ts";
import { useAny } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { compact, day, words } from "../format.ts";
import { Chart } from "../ui/chart.tsx";
import { useFilters } from "../ui/filters.ts";
import { Loaded, Page } from "../ui/page.tsx";
import { Tile } from "../ui/small.tsx";
import { Pages } from "../ui/tabs.tsx";
import { Cohorts, Retention } from "./analytics-cohorts.tsx";
import { Exports, Reports } from "./analytics-files.tsx";
import { Experiments, Funnels, Segments } from "./analytics-funnels.tsx";
import { AddedUp, Choice, Controls, MetricsInput, queryOf, Typed } from "./analytics-parts.tsx";

export const Analytics = ({ tab = "trends" }: { tab?: string }) => {
  const go = useGo();
  const can = useCan();
  return (
    <Page title="Analytics">
      <Pages
        open={tab}
        onOpen={(next) => go(next === "trends" ? "/analytics" : `/analytics/${next}`)}
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
    </Page>
  );
};

const COMPARE = ["nothing", "previous_period", "previous_week", "previous_year"];

const Trends = () => {
  const [filters] = useFilters({ period: "30d", metric: "activePlayers", interval: "day" });
  const query = {
    ...queryOf(filters, ["metric", "interval", "compare", "breakdown", "cumulative"]),
    ...(filters["breakdown"] ? { limit: "8" } : {}),
  };
  const trends = useAny("getAnalyticsTrends", { query });
  return (
    <Stack>
      <Controls report="trends" query={query}>
        <MetricsInput usual="activePlayers" />
        <Choice name="interval" options={["day", "hour", "week", "month"]} />
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
              <Text size="xs" c="dimmed">
                {`${range.from} to ${range.to}, ${timezone}${range.complete ? "" : "; the last days are not over yet"}`}
              </Text>
            </Stack>
          );
        }}
      </Loaded>
    </Stack>
  );
};
