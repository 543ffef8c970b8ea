import type { Metric, Operator } from "./board-metric.ts";
import type { Sort } from "./definition.ts";
import type { Audience, Bounds, EntryCost } from "./definition-parts.ts";
import type { Period } from "./period.ts";
import type { Ties } from "./ranks.ts";

export type BoardStatus = "ACTIVE" | "PAUSED" | "ARCHIVED";

/** A leaderboard in the form that scoring reads. */
export type Board = {
  id: string;
  key: string;
  /** Seed of the ids of its lists; for a board with one ranking, the id of its one list. */
  periodId: string;
  resets: number;
  /** Earlier events are late, in ms. */
  resetAtMs: number | null;
  status: BoardStatus;
  period: Period;
  ties: Ties;
  sort: Sort;
  operator: Operator;
  scoreDecimals: number;
  metric: Metric;
  breakdownAttribute?: string | undefined;
  breakdownProperty?: string | undefined;
  audience?: Audience | undefined;
  bounds?: Bounds | undefined;
  entryCost?: EntryCost | undefined;
  maxSubmissions?: number | undefined;
  /** A first score must be this good or better. */
  minRankScore?: number | undefined;
  /** Whether periods that were over when their first score arrived give prizes. */
  prizesForLate: boolean;
};
