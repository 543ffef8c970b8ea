import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/** Local days that are over, added up, so that questions of analytics need not read all history. */
export class Migration20261130000101 extends Migration {
  override up(): void {
    this.addSql(
      `create table analytics_closed_days (project_id uuid, calendar text, day int, document bytea not null,
        primary key (project_id, calendar, day))`,
    );
    this.addSql(
      `create table analytics_standings (project_id uuid, calendar text, day int, chunk int,
        document bytea not null, primary key (project_id, calendar, day, chunk))`,
    );
    this.addSql(
      `create table analytics_zones (project_id uuid, timezone text, is_new boolean not null default true,
        primary key (project_id, timezone))`,
    );
    this.addSql(`alter table analytics_rollups add closed_at timestamptz(3)`);
    for (const table of ["analytics_closed_days", "analytics_standings", "analytics_zones"])
      for (const statement of byProject(table)) this.addSql(statement);
  }

  override down(): void {
    for (const table of ["analytics_closed_days", "analytics_standings", "analytics_zones"])
      this.addSql(`drop table ${table}`);
    this.addSql(`alter table analytics_rollups drop closed_at`);
  }
}
