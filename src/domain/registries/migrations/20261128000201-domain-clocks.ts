import { Migration } from "@mikro-orm/migrations";

/** Domains of suspended tenants have a clock of their own; certificates keep the last notice of their end. */
export class Migration20261128000201 extends Migration {
  override up(): void {
    this.addSql(`alter table custom_domains add column tenant_suspended_at timestamptz(3)`);
    this.addSql(`
      update custom_domains d set tenant_suspended_at = plan_lost_at, plan_lost_at = null
      from tenants t where t.id = d.tenant_id and d.plan_lost_at is not null
        and t.approval_status in ('SUSPENDED', 'REJECTED')`);
    this.addSql(`alter table custom_domain_certificates add column notice_days integer`);
  }

  override down(): void {
    this.addSql(`alter table custom_domain_certificates drop column notice_days`);
    this.addSql(`update custom_domains set plan_lost_at = coalesce(plan_lost_at, tenant_suspended_at)`);
    this.addSql(`alter table custom_domains drop column tenant_suspended_at`);
  }
}
