import type { Work } from "../../kernel/work.ts";
import type { Asked } from "../ask.ts";
import type { CohortQuestion } from "../cohort-table.ts";
import { readCohorts } from "../cohorts.ts";
import { type FunnelQuestion, readFunnel } from "../funnels.ts";
import { readRetention } from "../retention.ts";
import type { RetentionQuestion } from "../retention-tally.ts";
import type { ReportColumn, Row } from "./columns.ts";
import { computed } from "./report.ts";

const text = (name: string): ReportColumn => ({ name, type: "text" });
const number = (name: string): ReportColumn => ({ name, type: "number" });
const flag = (name: string): ReportColumn => ({ name, type: "boolean" });

/** The cells of retention: a row each. */
export const retentionReport = computed({
  columns: [text("period"), ...["size", "offset", "until", "players", "rate"].map(number), flag("complete")],
  read: (work: Work, asked: Asked, question: RetentionQuestion) => readRetention(work, asked, question),
  rows: ({ cohorts }) =>
    cohorts.flatMap(({ period, size, cells }) => cells.map((cell): Row => ({ period, size, ...cell }))),
});

/** The values of cohorts: a row for each and its k-th period. */
export const cohortReport = computed({
  columns: [text("period"), text("label"), ...["size", "k", "value"].map(number), flag("complete")],
  read: (work: Work, asked: Asked, question: CohortQuestion) => readCohorts(work, asked, question),
  rows: ({ cohorts }) =>
    cohorts.flatMap(({ period, label, size, values, complete }) =>
      values.map((value, k): Row => ({ period, label, size, k, value, complete: complete[k]! })),
    ),
});

/** The steps of a funnel: a row each, and one for each value of its breakdown. */
export const funnelReport = computed({
  columns: [
    text("breakdown"),
    number("index"),
    text("eventType"),
    text("label"),
    ...["players", "fromStart", "fromPrevious", "dropOff", "medianSecondsFromPrevious"].map(number),
  ],
  read: (work: Work, asked: Asked, question: FunnelQuestion) => readFunnel(work, asked, question),
  rows: ({ steps, breakdown = [] }) => {
    const ofValues = breakdown.flatMap(({ value, players }) =>
      steps.map(({ index, eventType, label }, i): Row => ({
        breakdown: value,
        index,
        eventType,
        label,
        players: players[i]!,
      })),
    );
    return [...steps.map((step): Row => ({ breakdown: null, ...step })), ...ofValues];
  },
});
