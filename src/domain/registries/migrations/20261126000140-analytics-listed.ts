import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/** Players of lists of analytics that wait to be put into a segment. */
export class Migration20261126000140 extends Migration {
  override up(): void {
    for (const statement of [
      `create table analytics_listed (
        project_id uuid not null,
        job_id uuid not null,
        player_id uuid not null,
        expires_at timestamptz(3) not null,
        primary key (project_id, job_id, player_id))`,
      `create index analytics_listed_expiry_idx on analytics_listed (expires_at)`,
      `create index analytics_listed_player_idx on analytics_listed (project_id, player_id)`,
      ...byProject("analytics_listed"),
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop table analytics_listed`);
  }
}
