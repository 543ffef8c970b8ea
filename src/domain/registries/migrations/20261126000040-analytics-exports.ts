import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/** Exports of analytics that are made as jobs, and their files in pieces. */
export class Migration20261126000040 extends Migration {
  override up(): void {
    for (const statement of [
      `create table analytics_exports (
        project_id uuid not null,
        id uuid not null,
        report text not null,
        plan jsonb not null,
        row_count bigint not null default 0,
        byte_count bigint not null default 0,
        created_by text not null,
        created_at timestamptz(3) not null,
        finished_at timestamptz(3),
        expires_at timestamptz(3) not null,
        primary key (project_id, id))`,
      `create index analytics_exports_expiry_idx on analytics_exports (expires_at)`,
      ...byProject("analytics_exports"),
      `create table analytics_export_pieces (
        project_id uuid not null,
        export_id uuid not null,
        starts_at bigint not null,
        bytes bytea not null,
        primary key (project_id, export_id, starts_at))`,
      // It is compressed already.
      `alter table analytics_export_pieces alter column bytes set storage external`,
      ...byProject("analytics_export_pieces"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop table analytics_export_pieces`);
    this.addSql(`drop table analytics_exports`);
  }
}
