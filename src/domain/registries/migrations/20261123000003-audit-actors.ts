import { Migration } from "@mikro-orm/migrations";

/** For a tenant's audit log by actor. */
export class Migration20261123000003 extends Migration {
  override up(): void {
    this.addSql(`create index audit_log_actor_idx on audit_log (tenant_id, actor, created_at, id)`);
  }

  override down(): void {
    this.addSql(`drop index audit_log_actor_idx`);
  }
}
