import { Act } from "../ui/act.tsx";
import { Button, Group, Modal, Stack } from "@mantine/core";
import { useState } from "react";
import { download } from "../api/client.ts";
import { tellError, useAct, useAny } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { bytes, number, words } from "../format.ts";
import { FormButton } from "../ui/form.tsx";
import { Empty, Loaded } from "../ui/page.tsx";
import { Confirm, Status, When } from "../ui/small.tsx";
import { List, PlainTable } from "../ui/table.tsx";

export const Reports = () => {
  const can = useCan();
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
                  <Act id="startAnalyticsReportRun" path={{ reportId: id }} done="It runs">
                    Run
                  </Act>
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

export const Exports = () => {
  const can = useCan();
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
              <Act id="deleteAnalyticsExport" path={{ exportId: id }} done="Removed">
                Remove
              </Act>
            )}
          </>
        )}
      />
    </Stack>
  );
};
