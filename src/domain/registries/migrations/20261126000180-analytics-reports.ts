import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/** Saved reports of analytics, their schedules, and what their runs have given. */
export class Migration20261126000180 extends Migration {
  override up(): void {
    for (const statement of [
      `create table analytics_reports (
        project_id uuid not null,
        id uuid not null,
        name text not null,
        description text,
        report text not null,
        parameters jsonb not null,
        "range" jsonb,
        question jsonb not null,
        schedule jsonb,
        next_at timestamptz(3),
        created_by text not null,
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        primary key (project_id, id))`,
      `create index analytics_reports_due_idx on analytics_reports (next_at) where next_at is not null`,
      ...byProject("analytics_reports"),
      `create table analytics_report_runs (
        project_id uuid not null,
        id uuid not null,
        report_id uuid not null,
        cause text not null,
        due_at timestamptz(3) not null,
        report text not null,
        question jsonb not null,
        "range" jsonb,
        status text,
        error text,
        answered jsonb,
        result bytea,
        created_at timestamptz(3) not null,
        finished_at timestamptz(3),
        told_at timestamptz(3),
        result_until timestamptz(3),
        expires_at timestamptz(3) not null,
        primary key (project_id, id))`,
      `alter table analytics_report_runs alter column result set storage external`,
      `create index analytics_report_runs_list_idx on analytics_report_runs (project_id, report_id, id)`,
      `create unique index analytics_report_runs_due_key
        on analytics_report_runs (project_id, report_id, due_at) where cause = 'SCHEDULE'`,
      `create index analytics_report_runs_untold_idx on analytics_report_runs (id) where told_at is null`,
      `create index analytics_report_runs_kept_idx on analytics_report_runs (result_until)
        where result is not null`,
      `create index analytics_report_runs_expiry_idx on analytics_report_runs (expires_at)`,
      ...byProject("analytics_report_runs"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop table analytics_report_runs`);
    this.addSql(`drop table analytics_reports`);
  }
}
