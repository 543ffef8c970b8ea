import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { RuleCounts } from "../evaluation/running/stats.ts";

/** Adds two histograms on conflict with an existing row. */
const sums = (column: string) => sql`(
  select coalesce(jsonb_object_agg(name, n), '{}') from (
    select name, sum(value::numeric) as n from (
      select key as name, value from jsonb_each_text(t.${sql.ref(column)})
      union all select key, value from jsonb_each_text(excluded.${sql.ref(column)})) both_
    group by name) summed)`;

/** Adds counts to the stored statistics, in one statement. */
export const writeStats = async ({ db }: Work, counts: readonly RuleCounts[]): Promise<void> => {
  if (counts.length === 0) return;
  const rows = JSON.stringify(counts.map(({ hourMs, ...row }) => ({ ...row, hour: new Date(hourMs) })));
  await sql`
    insert into rule_stats as t
      (project_id, rule_id, hour, evaluated, fired, reasons, leaf_fails, cost, micros)
    select "projectId", "ruleId", hour, evaluated, fired, reasons, "leafFails", cost, micros
    from json_to_recordset(${rows}::json) as x("projectId" uuid, "ruleId" uuid, hour timestamptz,
      evaluated bigint, fired bigint, reasons jsonb, "leafFails" jsonb, cost jsonb, micros jsonb)
    order by 1, 2, 3
    on conflict (project_id, rule_id, hour) do update set
      evaluated = t.evaluated + excluded.evaluated, fired = t.fired + excluded.fired,
      reasons = ${sums("reasons")}, leaf_fails = ${sums("leaf_fails")},
      cost = ${sums("cost")}, micros = ${sums("micros")}`.execute(db);
};
