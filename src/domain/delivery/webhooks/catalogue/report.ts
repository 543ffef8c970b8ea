import { z } from "zod";
import type { EventType } from "../../../kernel/events/domain-events.ts";
import type { EntriesOf } from "./entry.ts";
import { Id, Text, Time } from "./shapes.ts";

type ReportType = Extract<EventType, `report.${string}`>;

const RUN = { reportId: Id, runId: Id, name: Text, report: Text, dueAt: Time };

export const reportTypes: EntriesOf<ReportType> = {
  "report.ready": {
    occurs: "a saved report was run, and its answer can be read at resultUrl for a week",
    data: z.object({
      ...RUN,
      range: z
        .object({ from: z.iso.date(), to: z.iso.date(), timezone: Text })
        .meta({ description: "Local dates of the zone, both included" }),
      resultUrl: Text.meta({ description: "Needs a key or an access token that may read analytics" }),
    }),
  },
  "report.failed": {
    occurs: "a run of a saved report was given up",
    data: z.object({ ...RUN, error: Text }),
  },
};
