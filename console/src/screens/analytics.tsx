import {
  Alert,
  Button,
  Group,
  Modal,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  Switch,
  Tabs,
  TagsInput,
  Text,
  TextInput,
} from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import { type Answer, download } from "../api/client.ts";
import { tellError, useAct, useAny, useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { bytes, compact, day, duration, number, percent, words } from "../format.ts";
import { Bars, Chart } from "../ui/chart.tsx";
import { type Filters, useFilters } from "../ui/filters.ts";
import { FormButton } from "../ui/form.tsx";
import { HeatTable } from "../ui/heat.tsx";
import { Empty, ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Section, Status, Tile, When } from "../ui/small.tsx";
import { List, PlainTable, saveCsv } from "../ui/table.tsx";

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
  const shown = TABS[tab] ? tab : "trends";
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

const PERIODS = ["today", "yesterday", "7d", "30d", "90d", "mtd", "qtd", "ytd", "12mo", "all"];
const PERIOD_WORDS: Record<string, string> = {
  "7d": "7 days",
  "30d": "30 days",
  "90d": "90 days",
  mtd: "This month",
  qtd: "This quarter",
  ytd: "This year",
  "12mo": "12 months",
  all: "All time",
};

/** Which days a question is about: a usual range, or two days. */
const Range = ({ filters, choose }: { filters: Filters; choose: (change: Filters) => void }) => (
  <>
    <Select
      label="Period"
      size="xs"
      w={130}
      data={[
        ...PERIODS.map((value) => ({ value, label: PERIOD_WORDS[value] ?? words(value) })),
        { value: "custom", label: "From … to …" },
      ]}
      value={filters["period"] ?? "30d"}
      onChange={(next) => choose({ period: next ?? "30d" })}
      allowDeselect={false}
    />
    {filters["period"] === "custom" &&
      ["from", "to"].map((name) => (
        <TextInput
          key={name}
          label={words(name)}
          size="xs"
          type="date"
          value={filters[name] ?? ""}
          onChange={(event) => choose({ [name]: event.currentTarget.value })}
        />
      ))}
  </>
);

const rangeOf = ({ period, from, to }: Filters): Filters =>
  period === "custom" ? { ...(from ? { from } : {}), ...(to ? { to } : {}) } : { period: period ?? "30d" };

type ChoiceProps = {
  name: string;
  options: string[];
  filters: Filters;
  choose: (change: Filters) => void;
  label?: string;
};

const Choice = ({ name, options, filters, choose, label = words(name) }: ChoiceProps) => (
  <Select
    label={label}
    size="xs"
    w={140}
    data={options.map((value) => ({ value, label: words(value) }))}
    value={filters[name] ?? options[0]!}
    onChange={(next) => next && choose({ [name]: next })}
    allowDeselect={false}
  />
);

/** A report as a file: what is on the screen, and all of it. */
const SaveReport = ({ report, query }: { report: string; query: Filters }) => {
  const can = useCan();
  if (!can("exportAnalytics")) return null;
  const save = (format: string) =>
    void download("exportAnalytics", `${report}.${format}`, { query: { report, format, ...query } }).catch(
      tellError,
    );
  return (
    <Group gap={4} ml="auto">
      <Button size="xs" variant="default" onClick={() => save("csv")}>
        Save as CSV
      </Button>
      <FormButton
        id="createAnalyticsReport"
        label="Save this report"
        size="xs"
        variant="default"
        first={["name", "range", "schedule"]}
        hidden={["report", "parameters"]}
        fixed={{ report, parameters: query }}
        done="Saved"
      />
    </Group>
  );
};

/** Metrics one may choose; others can be typed, as the API reference names them. */
const METRICS = [
  "activePlayers",
  "newPlayers",
  "returningPlayers",
  "events",
  "eventsPerActivePlayer",
  "avgDau",
  "wau",
  "mau",
  "stickiness",
  "xpGranted",
  "levelUps",
  "badgesEarned",
  "questsStarted",
  "questsCompleted",
  "adventuresStarted",
  "adventuresCompleted",
  "matches",
  "messages",
  "webhookSuccessRate",
];

const Trends = () => {
  const [filters, choose] = useFilters({
    period: "30d",
    metric: "activePlayers",
    interval: "day",
    compare: "none",
  });
  const query: Filters = {
    ...rangeOf(filters),
    metric: filters["metric"]!,
    interval: filters["interval"]!,
    ...(filters["compare"] === "none" ? {} : { compare: filters["compare"]! }),
    ...(filters["breakdown"] ? { breakdown: filters["breakdown"], limit: "8" } : {}),
    ...(filters["cumulative"] ? { cumulative: "true" } : {}),
  };
  const trends = useAny("getAnalyticsTrends", { query });
  return (
    <Stack>
      <Group align="flex-end" gap="xs">
        <Range filters={filters} choose={choose} />
        <TagsInput
          label="Metrics"
          size="xs"
          miw={220}
          data={METRICS}
          value={(filters["metric"] ?? "").split(",").filter(Boolean)}
          onChange={(next) => choose({ metric: next.join(",") })}
          maxTags={10}
        />
        <Choice name="interval" options={["day", "hour", "week", "month"]} {...{ filters, choose }} />
        <Choice
          name="compare"
          options={["none", "previous_period", "previous_week", "previous_year"]}
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
                    note={series.previous && `before: ${compact(series.previous.total)}`}
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

type Behind = { title: string; query: Filters };

/** The players behind a number: a list, a file, a segment. */
const PlayersBehind = ({ behind, onClose }: { behind: Behind | undefined; onClose: () => void }) => {
  const to = useTo();
  const [, go] = useLocation();
  const can = useCan();
  const answer = useAny(
    "listAnalyticsPlayers",
    { query: { ...behind?.query, limit: "100" } },
    { enabled: behind !== undefined },
  );
  return (
    <Modal opened={behind !== undefined} onClose={onClose} title={behind?.title} size="xl">
      {behind && (
        <Loaded query={answer}>
          {(data: Answer<"listAnalyticsPlayers">) => (
            <Stack>
              <Group justify="space-between">
                <Text size="sm">{`${number(data.pagination.total)} players`}</Text>
                <Group gap={4}>
                  <Button size="xs" variant="default" onClick={() => saveCsv("players", data.data as never)}>
                    Save as CSV
                  </Button>
                  {can("createAnalyticsSegment") && (
                    <FormButton
                      id="createAnalyticsSegment"
                      label="Make a segment of them"
                      size="xs"
                      variant="default"
                      first={["name", "key"]}
                      hidden={["list", "funnel"]}
                      fixed={{ list: behind.query }}
                      done="The segment is there"
                    />
                  )}
                </Group>
              </Group>
              <PlainTable
                name="Players"
                rows={data.data}
                keyOf={({ playerId }) => playerId}
                onRow={({ playerId }) => go(to(`/players/${playerId}`))}
                columns={[
                  {
                    title: "Player",
                    cell: ({ displayName, externalUserId }) => displayName ?? externalUserId,
                  },
                  { title: "Level", cell: ({ level }) => number(level), isNumber: true },
                  { title: "XP", cell: ({ xp }) => number(xp), isNumber: true },
                  { title: "Last active", cell: ({ lastActiveAt }) => <When at={lastActiveAt} /> },
                ]}
              />
            </Stack>
          )}
        </Loaded>
      )}
    </Modal>
  );
};

const Retention = () => {
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

const Cohorts = () => {
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

const Funnels = () => {
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

const Segments = () => {
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

const Experiments = () => {
  const [filters, choose] = useFilters({ period: "30d", rule: "", against: "holdout" });
  const rules = useApi("listRules", { query: { limit: 100 } });
  const tried =
    rules.data?.data.filter(
      ({ published }) =>
        (published?.rollout?.holdoutPercent ?? 0) > 0 || (published?.rollout?.percent ?? 100) < 100,
    ) ?? [];
  const ruleId = filters["rule"] || tried[0]?.id || "";
  const experiment = useAny(
    "getAnalyticsExperiment",
    { path: { ruleId }, query: { ...rangeOf(filters), against: filters["against"]! } },
    { enabled: ruleId !== "" },
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

const Reports = () => {
  const can = useCan();
  const run = useAct("startAnalyticsReportRun", { done: "It runs" });
  const remove = useAct("deleteAnalyticsReport", { done: "Removed" });
  const [open, setOpen] = useState<string>();
  return (
    <>
      <List
        id="listAnalyticsReports"
        name="Saved reports"
        filters={["report"]}
        onRow={({ id }) => setOpen(id)}
        empty={
          <Empty title="No saved reports">
            Save one from its screen; it can be mailed every day, week or month.
          </Empty>
        }
        columns={[
          { title: "Name", cell: ({ name }) => name },
          { title: "Report", cell: ({ report }) => words(report) },
          { title: "Every", cell: ({ schedule }) => (schedule ? words(schedule.every) : "–") },
          { title: "Next", cell: ({ nextRunAt }) => <When at={nextRunAt} /> },
        ]}
        actions={
          can("startAnalyticsReportRun")
            ? ({ id, name }) => (
                <>
                  <Button
                    size="compact-xs"
                    variant="default"
                    onClick={() => run.mutate({ path: { reportId: id } })}
                  >
                    Run
                  </Button>
                  <Confirm
                    label="Remove"
                    size="compact-xs"
                    title={`Remove ${name}?`}
                    onConfirm={() => remove.mutateAsync({ path: { reportId: id } })}
                  />
                </>
              )
            : undefined
        }
      />
      <Modal opened={open !== undefined} onClose={() => setOpen(undefined)} title="Runs" size="lg">
        {open && <Runs reportId={open} />}
      </Modal>
    </>
  );
};

const Runs = ({ reportId }: { reportId: string }) => {
  const runs = useAny("listAnalyticsReportRuns", { path: { reportId } }, { refetchInterval: 2_000 });
  return (
    <Loaded query={runs}>
      {({ data }: any) =>
        data.length === 0 ? (
          <Empty title="It has not run yet" />
        ) : (
          <PlainTable
            name="Runs"
            rows={data as any[]}
            columns={[
              { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
              { title: "Days", cell: ({ range }) => (range ? `${range.from} to ${range.to}` : "–") },
              { title: "Status", cell: ({ status }) => <Status value={status} /> },
            ]}
            actions={({ id, status }) =>
              status === "SUCCEEDED" && (
                <Button
                  size="compact-xs"
                  variant="default"
                  onClick={() =>
                    void download("getAnalyticsReportResult", "report.json", {
                      path: { reportId, runId: id },
                    }).catch(tellError)
                  }
                >
                  Save
                </Button>
              )
            }
          />
        )
      }
    </Loaded>
  );
};

const Exports = () => {
  const can = useCan();
  const remove = useAct("deleteAnalyticsExport", { done: "Removed" });
  return (
    <Stack gap="xs">
      {can("createAnalyticsExport") && (
        <Group justify="flex-end">
          <FormButton
            id="createAnalyticsExport"
            label="New file"
            size="xs"
            initial={{ report: "events", format: "csv" }}
            first={["report", "format", "columns"]}
            submit="Make the file"
            done="It is being made"
          />
        </Group>
      )}
      <List
        id="listAnalyticsExports"
        name="Files"
        refetchInterval={2_000}
        empty={<Empty title="No files yet">Events, players and reports of any size, as CSV or JSON.</Empty>}
        columns={[
          { title: "File", cell: ({ fileName }) => fileName },
          {
            title: "Status",
            cell: ({ status, progress }) =>
              status === "RUNNING" ? `${progress} %` : <Status value={status} />,
          },
          { title: "Rows", cell: ({ rows }) => number(rows), isNumber: true },
          { title: "Size", cell: (row) => bytes(row.bytes), isNumber: true },
          { title: "Kept until", cell: ({ expiresAt }) => <When at={expiresAt} />, isWideOnly: true },
        ]}
        actions={({ id, status, fileName }) => (
          <>
            {status === "SUCCEEDED" && (
              <Button
                size="compact-xs"
                onClick={() =>
                  void download("downloadAnalyticsExport", fileName, { path: { exportId: id } }).catch(
                    tellError,
                  )
                }
              >
                Save
              </Button>
            )}
            {can("deleteAnalyticsExport") && (
              <Button
                size="compact-xs"
                variant="default"
                onClick={() => remove.mutate({ path: { exportId: id } })}
              >
                Remove
              </Button>
            )}
          </>
        )}
      />
    </Stack>
  );
};
