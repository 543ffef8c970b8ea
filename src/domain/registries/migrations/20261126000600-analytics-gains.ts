import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

const TABLES = ["analytics_gains", "uncounted_gains"];

/**
 * What players gained, by day and by quarter of an hour: see src/domain/analytics/rollups. A job makes it of
 * what there is already, in the order of ids.
 */
export class Migration20261126000600 extends Migration {
  override up(): void {
    for (const statement of [
      `create table analytics_gains (
        project_id uuid not null,
        quarter smallint not null,
        day int not null,
        metric text not null,
        key text not null,
        document bytea not null,
        primary key (project_id, quarter, day, metric, key))`,
      // Bytes that nothing makes smaller.
      `alter table analytics_gains alter column document set storage external`,
      // Gains that an erasure deleted: whoever has counted them has to be told.
      `create table uncounted_gains (
        project_id uuid not null,
        gain_id uuid not null,
        metric text not null,
        key text not null,
        at timestamptz(3) not null,
        primary key (project_id, gain_id))`,
      `alter table analytics_rollups add column gains_watermark uuid`,
      ...TABLES.flatMap(byProject),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`alter table analytics_rollups drop column gains_watermark`);
    for (const table of TABLES) this.addSql(`drop table ${table}`);
  }
}
