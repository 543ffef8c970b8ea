import type { RawBuilder } from "kysely";
import type { Work } from "../../kernel/work.ts";
import type { Asked } from "../ask.ts";
import type { ReportColumn, Row } from "./columns.ts";
import type { Stretch } from "./stretches.ts";

/** What a file is made from: the range, and the report's own parameters as its operation has parsed them. */
export type ReportQuestion<Q> = {
  asked: Asked;
  query: Q;
  /** Rows with a later id do not exist: they came afterwards. Undefined: those of the snapshot do. */
  uptoId?: string | undefined;
  /** What `find` of the report has found. */
  found?: RawBuilder<unknown> | undefined;
  /** A part of the report's span alone. */
  stretch?: Stretch | undefined;
};

/** A column that a statement selects. `select`: gives ms for a time, text for JSON, float8 for a number. */
export type SelectedColumn = ReportColumn & { select: RawBuilder<unknown> };

/** What rows are ordered by, and read on from. */
export type RowKey = { select: RawBuilder<unknown>; type: "timestamptz" | "uuid" };

/** A report of as many rows as there are, which are read in pages. */
export type RowReport<Q> = {
  kind: "rows";
  /** Whose ids `uptoId` is one of. */
  table: "tracked_events" | "players";
  columns: readonly SelectedColumn[];
  keys: readonly RowKey[];
  /** Finds what rows are selected by, where that takes more than a query. */
  find?(work: Work, asked: Asked, query: Q): Promise<RawBuilder<unknown> | undefined>;
  /** Of rows that are ordered by their time first: within which times they are. */
  span?(question: ReportQuestion<Q>): Stretch;
  /** Returns `from … where …`. @param names of the columns that are read */
  from(question: ReportQuestion<Q>, names: ReadonlySet<string>): RawBuilder<unknown>;
};

/** A report whose answer is computed at once, and is its rows; a column of JSON gets its text. */
export type ComputedReport<Q = unknown, A = unknown> = {
  kind: "computed";
  columns: readonly ReportColumn[];
  /** Refuses, before anything is read, what `read` would. @throws DomainError VALIDATION_ERROR */
  check?(asked: Asked, query: Q): void;
  /** Computes the answer, as the report's own operation has it. */
  read(work: Work, asked: Asked, query: Q): Promise<A>;
  /** Returns the rows of an answer, also of one that was JSON meanwhile. */
  rows(answer: A): Iterable<Row>;
};

/** A report that can be exported. To add one, add a line to `reports.ts`, and one to its operations. */
export type Report<Q = unknown> = RowReport<Q> | ComputedReport<Q>;

/**
 * Puts a report of rows into the list. The parameters of a question are parsed by the operation that asks it,
 * and come back here as they were.
 */
export const rowReport = <Q>(one: Omit<RowReport<Q>, "kind">): Report => ({ kind: "rows", ...one });

/** As `rowReport`, for a report whose answer is computed at once. */
export const computed = <Q, A>(one: Omit<ComputedReport<Q, A>, "kind">): ComputedReport => ({
  kind: "computed",
  ...one,
});
