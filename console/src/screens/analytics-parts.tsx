import { Group } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Given, Id } from "../api/client.ts";
import { useApi, useCan, useRead } from "../api/hooks.ts";
import { bytes, count, nameOf, words } from "../format.ts";
import { type Filters, useFilters, useListFilters } from "../ui/filters.tsx";
import { act, ask, create, form, SaveFile } from "../ui/operations.tsx";
import { Dialog, press, Status } from "../ui/page.tsx";
import { List, PlainTable, Rows, saveCsv } from "../ui/table.tsx";

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
export const useReport = <I extends Id>({ report, id, names, usual, children, ...asked }: Asked<I>) => {
  const [{ from, to }] = useFilters();
  const all = ["period", "from", "to", ...names];
  const [chosen, , bar] = useListFilters(id, all, { period: from || to ? "" : "30d", ...usual });
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

type Behind = { title: string; query: Filters };

/** A dialogue with the players behind a number, and what opens it. */
export const useBehind = (): [dialog: ReactNode, show: (title: string, query: Filters) => void] => {
  const [behind, setBehind] = useState<Behind>();
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
