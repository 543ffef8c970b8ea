import { Migration } from "@mikro-orm/migrations";

/**
 * Inputs of a project's limits, computed once when a document is written: its bytes, a digest shared only by
 * equal ones, and whether it may read a metric.
 */
export class Migration20261122000004 extends Migration {
  override up(): void {
    for (const table of ["rule_versions", "definitions", "leaderboards"])
      this.addSql(`
        alter table ${table}
          add column bytes int generated always as (octet_length(definition::text)) stored,
          add column digest text generated always as (md5(definition::text)) stored,
          add column has_metric boolean generated always as
            (strpos(definition::text, '"metric"') > 0) stored`);
  }

  override down(): void {
    for (const table of ["rule_versions", "definitions", "leaderboards"])
      this.addSql(`
        alter table ${table} drop column bytes, drop column digest, drop column has_metric`);
  }
}
