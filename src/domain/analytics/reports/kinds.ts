import type { ComputedReport } from "../exports/report.ts";
import { overviewReport, segmentReport, trendReport } from "../exports/computed-reports.ts";
import { experimentReport } from "../exports/experiment-report.ts";
import { cohortReport, funnelReport, retentionReport } from "../exports/return-reports.ts";
import type { FrameQuery } from "../ask.ts";
import type { RangeQuery } from "../range.ts";

/** How a kind of report is asked beside its own fields. */
type SavedKind = {
  report: ComputedReport;
  /** Days of its range, where not as many as a series may have points. */
  daysMax?: number;
  /** Parameters that name one of its numbers, by which the players behind it are listed. */
  players?: readonly string[];
};

/** What can be saved, each a question with an operation of its own. */
export const SAVED_KINDS = {
  overview: { report: overviewReport },
  trends: { report: trendReport },
  segments: { report: segmentReport, players: ["segment"] },
  retention: {
    report: retentionReport,
    daysMax: Infinity,
    players: ["cohort", "offset", "returned"],
  },
  cohorts: { report: cohortReport, daysMax: Infinity, players: ["cohort", "segment", "k"] },
  funnels: { report: funnelReport, daysMax: Infinity, players: ["step", "state", "value"] },
  experiments: { report: experimentReport },
} as const satisfies Record<string, SavedKind>;
export type SavedKindName = keyof typeof SAVED_KINDS;
export const SAVED_KIND_NAMES = Object.keys(SAVED_KINDS) as SavedKindName[];

/** @returns how reports of a kind are asked */
export const savedKind = (name: SavedKindName): SavedKind => SAVED_KINDS[name];

/**
 * A question as its operation has parsed it, so that it can be asked without that. `shown`: what its answer
 * repeats of it.
 */
export type StoredQuestion = Readonly<Record<string, unknown>> &
  FrameQuery &
  RangeQuery & { shown?: Readonly<Record<string, unknown>> };
