import { Alert, Group, Select, SimpleGrid, Stack, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { type Given, type Id } from "../api/client.ts";
import { useApi, useCan, useRead } from "../api/hooks.ts";
import { bytes, compact, count, day, duration, nameOf, number, percent, words } from "../format.ts";
import { type Filters, useFilters, useListFilters } from "../ui/filters.tsx";
import { act, ask, create, form, SaveFile } from "../ui/operations.tsx";
import { ButtonSize, Dialog, Empty, Hint, Loaded, Page, press, Section, Status, Tiles } from "../ui/page.tsx";
import { List, PlainTable, Rows, saveCsv } from "../ui/table.tsx";
import { Bars, Chart, HeatTable } from "../ui/chart.tsx";

type Asked<I extends Id> = {
  report?: string;
  id: I;
  path?: object;
  /** Its parameters that are set here, besides the range. */
  names: readonly string[];
  usual?: Filters;
  /** Whether it can be asked yet. */
  isReady?: (query: Filters) => boolean;
  children?: ReactNode;
};

/** A report: what it is asked for, which the address holds; the inputs for that; and its answer. */
const useReport = <I extends Id>({ report, id, names, usual, children, ...asked }: Asked<I>) => {
  const [{ from, to }] = useFilters();
  const all = ["period", "from", "to", ...names];
  const range = from || to ? { period: "" } : {};
  const [chosen, , bar] = useListFilters(id, all, { period: "30d", ...usual, ...range });
  const query = Object.fromEntries(all.flatMap((name) => (chosen[name] ? [[name, chosen[name]]] : [])));
  const isReady = asked.isReady?.(query) ?? true;
  const answer = useApi(id, { path: asked.path, query } as Given<I>, { enabled: isReady });
  const controls = (
    <Group align="flex-end" gap="xs">
      {bar}
      {children}
      {report && isReady && <SaveReport report={report} query={query} />}
    </Group>
  );
  return { query, isReady, answer, controls };
};

/** A report as a file: what is on the screen, and all of it. */
const SaveReport = ({ report, query }: { report: string; query: Filters }) => {
  const can = useCan();
  if (!can("exportAnalytics")) return null;
  const asked: any = { report, format: "csv", ...query };
  return (
    <Group gap={4} ml="auto">
      <SaveFile id="exportAnalytics" name={`${report}.csv`} query={asked}>
        Save as CSV
      </SaveFile>
      {form("createAnalyticsReport", "Save this report", {
        first: ["name", "range", "schedule"],
        hidden: ["report", "parameters"],
        fixed: { report, parameters: query },
      })}
    </Group>
  );
};

/** A dialogue with the players behind a number, and what opens it. */
const useBehind = (): [dialog: ReactNode, show: (title: string, query: Filters) => void] => {
  const [behind, setBehind] = useState<{ title: string; query: Filters }>();
  const dialog = (
    <Dialog isOpen={behind !== undefined} onClose={() => setBehind(undefined)} title={behind?.title}>
      {() => behind && <PlayersBehind query={behind.query} />}
    </Dialog>
  );
  return [dialog, (title, query) => setBehind({ title, query })];
};

/** The players behind a number: a list, a file, a segment. */
const PlayersBehind = ({ query }: { query: Filters }) => {
  const given = { query: { ...query, limit: 100 } as never };
  const { data, pagination } = useRead("listAnalyticsPlayers", given);
  return (
    <PlainTable
      section={count(pagination.total, "players")}
      beside={[
        press("Save as CSV", () => saveCsv("players", data as never)),
        form("createAnalyticsSegment", "Make a segment of them", {
          first: ["name", "key"],
          hidden: ["list", "funnel"],
          fixed: { list: query },
          done: "The segment is there",
        }),
      ]}
      rows={data}
      to={({ playerId }) => `/players/${playerId}`}
      columns={{ Player: nameOf, Level: "level", XP: "xp", "Last active": "lastActiveAt" }}
    />
  );
};

const Reports = () => (
  <List
    id="listAnalyticsReports"
    filters={["report"]}
    dialog={["Runs", ({ id }) => <Runs reportId={id} />]}
    empty="No saved reports"
    hint="Save one from its screen; it can be mailed every day, week or month."
    columns={{
      Name: "name",
      Report: "report",
      Every: ({ schedule }) => schedule && words(schedule.every),
      Next: "nextRunAt",
    }}
    actions={({ id, name }) => [
      act("startAnalyticsReportRun", "Run", { path: { reportId: id }, done: "It runs" }),
      ask("deleteAnalyticsReport", "Remove", { path: { reportId: id }, of: name }),
    ]}
  />
);

const Runs = ({ reportId }: { reportId: string }) => (
  <Rows
    id="listAnalyticsReportRuns"
    given={{ path: { reportId } }}
    refetchInterval={2_000}
    empty="It has not run yet"
    columns={{
      When: "createdAt",
      Days: ({ range }) => range && `${range.from} to ${range.to}`,
      Status: "status",
    }}
    actions={({ id, status }) =>
      status === "SUCCEEDED" && (
        <SaveFile id="getAnalyticsReportResult" name="report.json" path={{ reportId, runId: id }}>
          Save
        </SaveFile>
      )
    }
  />
);

const Exports = () => (
  <List
    beside={create("createAnalyticsExport", "New file", {
      initial: { report: "events", format: "csv" },
      first: ["report", "format", "columns"],
      submit: "Make the file",
      done: "It is being made",
    })}
    id="listAnalyticsExports"
    refetchInterval={2_000}
    empty="No files yet"
    hint="Events, players and reports of any size, as CSV or JSON."
    columns={{
      File: "fileName",
      Status: ({ status, progress }) => (status === "RUNNING" ? `${progress} %` : <Status value={status} />),
      Rows: "rows",
      Size: (row) => bytes(row.bytes),
      "Kept until": "expiresAt",
    }}
    right={["Size"]}
    wide={["Kept until"]}
    actions={({ id, status, fileName }) => (
      <>
        {status === "SUCCEEDED" && (
          <SaveFile id="downloadAnalyticsExport" name={fileName} path={{ exportId: id }}>
            Save
          </SaveFile>
        )}
        {act("deleteAnalyticsExport", "Remove", { path: { exportId: id } })}
      </>
    )}
  />
);

const Funnels = () => {
  const [dialog, showBehind] = useBehind();
  const { query, isReady, answer, controls } = useReport({
    report: "funnels",
    id: "getAnalyticsFunnel",
    names: ["steps", "window", "order"],
    usual: { window: "7d" },
    isReady: ({ steps }) => steps?.includes(",") ?? false,
  });
  return (
    <Stack>
      {controls}
      {!isReady ? (
        <Empty title="How far do players come?">
          Choose at least two events that lead somewhere, such as signing up, playing and buying.
        </Empty>
      ) : (
        <Loaded query={answer}>
          {(data) => (
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

const Segments = () => {
  const { total, lastDay, groups } = useRead("getAnalyticsSegments", { query: { group: "all" } as never });
  const [dialog, showBehind] = useBehind();
  return (
    <Stack>
      <Group>
        <Text>{`${count(total, "players")}, as of ${lastDay}`}</Text>
        <SaveReport report="segments" query={{}} />
      </Group>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        {groups.map(({ key: group, segments: found }) => {
          const bars = (found as any[]).map(({ key, label, players, count: size = 0 }) => {
            const name = label ?? words(key);
            const value = players ?? size;
            const onClick = () => showBehind(name, { of: "segments", segment: `${group}:${key}` });
            return { name, value, note: percent(value / Math.max(1, total)), onClick };
          });
          return (
            <Section key={group} title={words(group)}>
              <Bars rows={bars} />
            </Section>
          );
        })}
      </SimpleGrid>
      {dialog}
    </Stack>
  );
};

const Experiments = () => {
  const { data: rules } = useRead("listRules", { query: { limit: 100 } });
  const [{ rule }, chooseRule] = useFilters();
  const tried = rules.filter(({ published }) => {
    const { holdoutPercent, percent: share } = published?.rollout ?? {};
    return (holdoutPercent ?? 0) > 0 || (share ?? 100) < 100;
  });
  const ruleId = (tried.find(({ id }) => id === rule) ?? tried[0])?.id ?? "";
  const { answer, controls } = useReport({
    id: "getAnalyticsExperiment",
    path: { ruleId },
    isReady: () => ruleId !== "",
    names: ["against", "metric"],
    usual: { metric: "activePlayers,events,xpGranted" },
    children: (
      <Select
        label="Rule"
        size="xs"
        data={tried.map(({ id, name }) => ({ value: id, label: name }))}
        value={ruleId}
        onChange={(next) => chooseRule({ rule: next ?? "" })}
        allowDeselect={false}
      />
    ),
  });
  if (tried.length === 0)
    return (
      <Empty title="No rule is tried on a part of the players">
        Give a rule a rollout with players held back, and compare them here.
      </Empty>
    );
  return (
    <Stack>
      {controls}
      <Loaded query={answer}>
        {({ treated, control, notes, metrics }) => (
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
          const titleOf = ({ metric, breakdown }: (typeof series)[number]) =>
            [words(metric), breakdown].filter(Boolean).join(" · ");
          const toldOf = ({ total, previous }: (typeof series)[number]): [string, string] => [
            compact(total),
            previous ? `${compact(previous.total)} before` : "",
          ];
          const valuesOf = (points: any[]): (number | null)[] => points.map(({ value }) => value);
          const lines = series.flatMap((one) => [
            { name: titleOf(one), values: valuesOf(one.points) },
            ...(one.previous
              ? [{ name: `${titleOf(one)}, before`, values: valuesOf(one.previous.points) }]
              : []),
          ]);
          return (
            <Stack>
              <Tiles of={Object.fromEntries(series.map((one) => [titleOf(one), toldOf(one)]))} />
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
            // What lies ahead is not told as nobody.
            if (!cell || (!cell.complete && cell.players === 0)) return undefined;
            return { share: cell.rate, text: percent(cell.rate), isComplete: cell.complete };
          };
          return (
            <Stack>
              <Chart
                name="Players who come back"
                labels={offsets.map((offset) => `${words(unit)} ${offset}`)}
                series={[
                  {
                    name: "Come back",
                    values: overall.map(({ eligible, rate }) => (eligible > 0 ? rate : null)),
                  },
                ]}
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
          const cellOf = (value: number, isComplete: boolean) =>
            // What lies ahead is not told as nothing.
            isComplete || value !== 0 ? { share: value / most, text: compact(value), isComplete } : undefined;
          return (
            <HeatTable
              name="Cohorts"
              first="Cohort"
              columns={Array.from({ length: columns }, (_, k) => columnOf(data.unit, k))}
              rows={rows.map(({ label, size, shares, complete }) => ({
                label: day(label),
                size,
                cells: shares.map((value, k) => cellOf(value, complete[k] !== false)),
              }))}
            />
          );
        }}
      </Loaded>
      <Hint size="xs">Each number is for one player of the cohort.</Hint>
    </Stack>
  );
};
