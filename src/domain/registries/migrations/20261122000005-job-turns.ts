import { Migration } from "@mikro-orm/migrations";

/** Fair queueing of tenants' long-running work: projects with due jobs are found one by one. */
export class Migration20261122000005 extends Migration {
  override up(): void {
    this.addSql(`create index project_jobs_turn_idx on project_jobs (project_id, due_at)
      where status in ('QUEUED', 'RUNNING')`);
  }

  override down(): void {
    this.addSql(`drop index project_jobs_turn_idx`);
  }
}
