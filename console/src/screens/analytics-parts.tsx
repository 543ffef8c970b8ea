import {
  Group,
  Modal,
  Select,
  Stack,
  Switch,
  TagsInput,
  Text,
  TextInput,
  type TextInputProps,
} from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Answer } from "../api/client.ts";
import { useCan } from "../api/hooks.ts";
import { bytes, count, nameOf, words } from "../format.ts";
import { type Filters, useFilters } from "../ui/filters.tsx";
import { act, ask, create, form, SaveFile } from "../ui/operations.tsx";
import { press, Read, Status } from "../ui/page.tsx";
import { List, PlainTable, Rows, saveCsv } from "../ui/table.tsx";

export const PERIODS = [
  "today",
  "yesterday",
  "7d",
  "30d",
  "90d",
  "mtd",
  "qtd",
  "ytd",
  "12mo",
  "all",
  "custom",
];

type ControlsProps = {
  /** The range without a choice. */
  usual?: string;
  report?: string;
  query: Filters;
  children?: ReactNode;
};

/** What a report is asked for; each of the inputs keeps its value in the address. */
export const Controls = ({ usual = "30d", report, query, children }: ControlsProps) => {
  const [filters] = useFilters({ period: [usual, ...PERIODS] });
  return (
    <Group align="flex-end" gap="xs">
      <Choice
        name="period"
        options={PERIODS}
        usual={usual}
        textOf={(one) => (one === "all" ? "All time" : words(one))}
      />
      {filters["period"] === "custom" &&
        ["from", "to"].map((name) => <Typed key={name} name={name} type="date" />)}
      {children}
      {report && <SaveReport report={report} query={query} />}
    </Group>
  );
};

/** Chosen where a filter is to have no value. */
export const NOTHING = "nothing";

/** What is asked of the API: the range, and those filters that are set. */
export const queryOf = (filters: Filters, names: readonly string[]): Filters => {
  const range = filters["period"] === "custom" ? ["from", "to"] : ["period"];
  return Object.fromEntries(
    [...range, ...names].flatMap((name) =>
      filters[name] && filters[name] !== NOTHING ? [[name, filters[name]]] : [],
    ),
  );
};

type ChoiceProps = {
  name: string;
  options: readonly string[];
  /** Chosen unless the address says otherwise. */
  usual?: string;
  label?: string;
  textOf?: (option: string) => string;
};

export const Choice = ({
  name,
  options,
  usual = options[0]!,
  label = words(name),
  textOf = words,
}: ChoiceProps) => {
  const [filters, choose] = useFilters({ [name]: [usual, ...options] });
  return (
    <Select
      label={label}
      size="xs"
      w={140}
      data={options.map((value) => ({ value, label: textOf(value) }))}
      value={filters[name]!}
      onChange={(next) => next && choose({ [name]: next })}
      allowDeselect={false}
    />
  );
};

type TypedProps = Omit<TextInputProps, "value" | "onChange"> & { name: string; usual?: string };

export const Typed = ({ name, label = words(name), usual = "", ...input }: TypedProps) => {
  const [filters, choose] = useFilters({ [name]: usual });
  return (
    <TextInput
      label={label}
      size="xs"
      {...input}
      value={filters[name]!}
      onChange={(event) => choose({ [name]: event.currentTarget.value.trim() })}
    />
  );
};

export const AddedUp = () => {
  const [{ cumulative }, choose] = useFilters();
  return (
    <Switch
      label="Added up"
      size="xs"
      checked={cumulative === "true"}
      onChange={(event) => choose({ cumulative: event.currentTarget.checked ? "true" : "" })}
    />
  );
};

/** A report as a file: what is on the screen, and all of it. */
export const SaveReport = ({ report, query }: { report: string; query: Filters }) => {
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

export const MetricsInput = ({ usual }: { usual: string }) => {
  const [{ metric = "" }, choose] = useFilters({ metric: usual });
  return (
    <TagsInput
      label="Metrics"
      size="xs"
      miw={220}
      data={METRICS}
      value={metric.split(",").filter(Boolean)}
      onChange={(next) => choose({ metric: next.join(",") })}
      maxTags={10}
    />
  );
};

type Behind = { title: string; query: Filters };

/** A dialogue with the players behind a number, and what opens it. */
export const useBehind = (): [dialog: ReactNode, show: (title: string, query: Filters) => void] => {
  const [behind, setBehind] = useState<Behind>();
  const dialog = (
    <Modal opened={behind !== undefined} onClose={() => setBehind(undefined)} title={behind?.title} size="xl">
      {behind && <PlayersBehind query={behind.query} />}
    </Modal>
  );
  return [dialog, (title, query) => setBehind({ title, query })];
};

/** The players behind a number: a list, a file, a segment. */
const PlayersBehind = ({ query }: { query: Filters }) => (
  <Read id="listAnalyticsPlayers" given={{ query: { ...query, limit: 100 } as never }}>
    {({ data, pagination }: Answer<"listAnalyticsPlayers">) => (
      <Stack>
        <Group justify="space-between">
          <Text>{count(pagination.total, "players")}</Text>
          <Group gap={4}>
            {press("Save as CSV", () => saveCsv("players", data as never))}
            {form("createAnalyticsSegment", "Make a segment of them", {
              first: ["name", "key"],
              hidden: ["list", "funnel"],
              fixed: { list: query },
              done: "The segment is there",
            })}
          </Group>
        </Group>
        <PlainTable
          name="Players"
          rows={data}
          to={({ playerId }) => `/players/${playerId}`}
          columns={{ Player: nameOf, Level: "level", XP: "xp", "Last active": "lastActiveAt" }}
        />
      </Stack>
    )}
  </Read>
);

export const Reports = () => (
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

export const Exports = () => (
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
