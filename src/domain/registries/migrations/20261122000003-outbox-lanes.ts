import { Migration } from "@mikro-orm/migrations";

/**
 * The relay takes rows by their bytes, and projects in turn. Earlier rows have no `bytes`: they are measured
 * when they are read.
 */
export class Migration20261122000003 extends Migration {
  override up(): void {
    this.addSql(`alter table outbox add column bytes int`);
    this.addSql(`create index outbox_q_lane_idx on outbox_q (part, project_id, seq)`);
  }

  override down(): void {
    this.addSql(`drop index outbox_q_lane_idx`);
    this.addSql(`alter table outbox drop column bytes`);
  }
}
