import { bytes, words } from "../format.ts";
import { act, ask, SaveFile } from "../ui/act.tsx";
import { create } from "../ui/form.tsx";
import { Status } from "../ui/small.tsx";
import { List, Rows } from "../ui/table.tsx";

export const Reports = () => (
  <List
    id="listAnalyticsReports"
    name="Saved reports"
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

const Runs = ({ reportId }: { reportId: string }) => {
  return (
    <Rows
      id="listAnalyticsReportRuns"
      given={{ path: { reportId } }}
      refetchInterval={2_000}
      name="Runs"
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
};

export const Exports = () => (
  <List
    beside={create("createAnalyticsExport", "New file", {
      initial: { report: "events", format: "csv" },
      first: ["report", "format", "columns"],
      submit: "Make the file",
      done: "It is being made",
    })}
    id="listAnalyticsExports"
    name="Files"
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
