import { type RawBuilder, sql } from "kysely";
import type { FileColumn, Row } from "./columns.ts";
import type { ReportQuestion, RowReport } from "./report.ts";

/** Where reading goes on: the keys of the last row, as text. */
export type After = readonly string[];

const keyName = (i: number): string => `key ${i}`;

/** Returns the keys of a row that was selected with them. */
export const keysOf = (report: RowReport<unknown>, row: Row): After =>
  report.keys.map((_, i) => String(row[keyName(i)]));

const rowAfter = ({ keys }: RowReport<unknown>, after: After): RawBuilder<unknown> => sql`
  and (${sql.join(keys.map(({ select }) => select))}) > (${sql.join(
    keys.map(({ type }, i) => sql`${after[i]}::${sql.raw(type)}`),
  )})`;

/** Selects the rows of a report in their order; with `page` some of them, with their keys. */
export const rowQuery = (
  report: RowReport<unknown>,
  question: ReportQuestion<unknown>,
  columns: readonly FileColumn[],
  page?: { after: After | undefined; limit: number },
): RawBuilder<unknown> => {
  const names = new Set(columns.map(({ of }) => of));
  const selected = report.columns
    .filter(({ name }) => names.has(name))
    .map(({ name, select }) => sql`${select} as ${sql.id(name)}`);
  const keys = page ? report.keys.map(({ select }, i) => sql`${select}::text as ${sql.id(keyName(i))}`) : [];
  const order = sql.join(report.keys.map(({ select }) => select));
  return sql`
    select ${sql.join([...selected, ...keys])} ${report.from(question, names)}
    ${page?.after === undefined ? sql`` : rowAfter(report, page.after)}
    order by ${order} ${page === undefined ? sql`` : sql`limit ${page.limit}`}`;
};
