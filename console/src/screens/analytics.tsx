import { Group, SimpleGrid, Stack, Switch, Tabs, Text, TextInput } from "@mantine/core";
import { type ReactNode } from "react";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import { useCan } from "../api/session.ts";
import { type Answer } from "../api/client.ts";
import { useAny } from "../api/hooks.ts";
import { compact, day, words } from "../format.ts";
import { Chart } from "../ui/chart.tsx";
import { type Filters, useFilters } from "../ui/filters.ts";
import { Loaded, Page } from "../ui/page.tsx";
import { Tile } from "../ui/small.tsx";
import { Retention, Cohorts } from "./analytics-cohorts.tsx";
import { Reports, Exports } from "./analytics-files.tsx";
import { Funnels, Segments, Experiments } from "./analytics-funnels.tsx";
import { Range, rangeOf, Choice, SaveReport, MetricsInput } from "./analytics-parts.tsx";

const TABS: Record<string, { title: string; component: () => ReactNode }> = {
  trends: { title: "Trends", component: () => <Trends /> },
  retention: { title: "Retention", component: () => <Retention /> },
  cohorts: { title: "Cohorts", component: () => <Cohorts /> },
  funnels: { title: "Funnels", component: () => <Funnels /> },
  segments: { title: "Segments", component: () => <Segments /> },
  experiments: { title: "Experiments", component: () => <Experiments /> },
  reports: { title: "Saved reports", component: () => <Reports /> },
  exports: { title: "Exports", component: () => <Exports /> },
};

export const Analytics = ({ tab = "trends" }: { tab?: string }) => {
  const to = useTo();
  const [, go] = useLocation();
  const can = useCan();
  const shown = Object.hasOwn(TABS, tab) ? tab : "trends";
  return (
    <Page title="Analytics">
      <Tabs
        value={shown}
        onChange={(next) => go(to(next === "trends" ? "/analytics" : `/analytics/${next}`))}
      >
        <Tabs.List>
          {Object.entries(TABS).map(
            ([name, { title }]) =>
              (name !== "exports" || can("listAnalyticsExports")) && (
                <Tabs.Tab key={name} value={name}>
                  {title}
                </Tabs.Tab>
              ),
          )}
        </Tabs.List>
      </Tabs>
      <div key={shown}>{TABS[shown]!.component()}</div>
    </Page>
  );
};

const Trends = () => {
  const [filters, choose] = useFilters({
    period: "30d",
    metric: "activePlayers",
    interval: "day",
    compare: "nothing",
  });
  const query: Filters = {
    ...rangeOf(filters),
    metric: filters["metric"]!,
    interval: filters["interval"]!,
    ...(filters["compare"] === "nothing" ? {} : { compare: filters["compare"]! }),
    ...(filters["breakdown"] ? { breakdown: filters["breakdown"], limit: "8" } : {}),
    ...(filters["cumulative"] ? { cumulative: "true" } : {}),
  };
  const trends = useAny("getAnalyticsTrends", { query });
  return (
    <Stack>
      <Group align="flex-end" gap="xs">
        <Range filters={filters} choose={choose} />
        <MetricsInput {...{ filters, choose }} />
        <Choice name="interval" options={["day", "hour", "week", "month"]} {...{ filters, choose }} />
        <Choice
          name="compare"
          options={["nothing", "previous_period", "previous_week", "previous_year"]}
          {...{ filters, choose }}
          label="Compared with"
        />
        <TextInput
          label="Broken down by"
          size="xs"
          placeholder="country"
          value={filters["breakdown"] ?? ""}
          onChange={(event) => choose({ breakdown: event.currentTarget.value.trim() })}
        />
        <Switch
          label="Added up"
          size="xs"
          checked={filters["cumulative"] === "true"}
          onChange={(event) => choose({ cumulative: event.currentTarget.checked ? "true" : "" })}
        />
        <SaveReport report="trends" query={query} />
      </Group>
      <Loaded query={trends}>
        {(data: Answer<"getAnalyticsTrends">) => {
          const [longest] = data.series.toSorted((a, b) => b.points.length - a.points.length);
          const labels = (longest?.points ?? []).map((point: any) => day(point.date ?? point.start ?? ""));
          const lines = data.series.flatMap((series) => {
            const name = [words(series.metric), series.breakdown].filter(Boolean).join(" · ");
            const line = { name, values: series.points.map((point: any) => point.value as number | null) };
            if (!series.previous) return [line];
            return [
              line,
              { name: `${name}, before`, values: series.previous.points.map((point: any) => point.value) },
            ];
          });
          return (
            <Stack>
              <SimpleGrid cols={{ base: 2, md: 4 }}>
                {data.series.map((series) => (
                  <Tile
                    key={`${series.metric} ${series.breakdown}`}
                    name={[words(series.metric), series.breakdown].filter(Boolean).join(" · ")}
                    value={compact(series.total)}
                    note={series.previous && `${compact(series.previous.total)} before`}
                  />
                ))}
              </SimpleGrid>
              <Chart name="Trends" labels={labels} series={lines} height={320} />
              <Text
                size="xs"
                c="dimmed"
              >{`${data.range.from} to ${data.range.to}, ${data.timezone}${data.range.complete ? "" : "; the last days are not over yet"}`}</Text>
            </Stack>
          );
        }}
      </Loaded>
    </Stack>
  );
};
